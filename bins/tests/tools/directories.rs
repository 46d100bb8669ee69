//! Directories that are not to be read, and directories that are renamed in the middle of a transfer.

use crate::support::{BOUND, NOBODY, Scratch, is_root};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

#[test]
fn a_drop_box_that_cannot_be_read() {
    if !is_root("a directory that its writer may not read") {
        return;
    }
    for (mode, owner) in [(0o300, NOBODY), (0o1733, 0)] {
        let scratch = Scratch::new("drop-box");
        scratch.open_to_all();
        let drop_box = scratch.data("drop");
        fs::create_dir(&drop_box).unwrap();
        chown(&drop_box, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&drop_box, Permissions::from_mode(mode)).unwrap();
        fs::write(drop_box.join("old"), b"old").unwrap();
        chown(drop_box.join("old"), Some(NOBODY), Some(NOBODY)).unwrap();
        let input = scratch.root().join("in");
        fs::write(&input, b"data").unwrap();
        for name in ["new", "old"] {
            let mut rrecv = scratch.rrecv(&[]);
            rrecv.arg(drop_box.join(name));
            let mut rsend = scratch.rsend(&[&scratch.address()]);
            rsend.arg(&input);
            let (sent, received) =
                scratch.pair(&mut scratch.as_nobody(&rsend), &mut scratch.as_nobody(&rrecv));
            received.assert(0, "4 bytes");
            sent.assert(0, "4 bytes");
            assert_eq!(fs::read(drop_box.join(name)).unwrap(), b"data");
        }
        assert_eq!(fs::read_dir(&drop_box).unwrap().count(), 2);
    }
}

#[test]
fn a_directory_that_is_renamed_takes_the_file_along() {
    for old in [None, Some("old")] {
        let scratch = Scratch::new("renamed");
        let (before, after) = (scratch.data("before"), scratch.data("after"));
        fs::create_dir(&before).unwrap();
        if let Some(old) = old {
            fs::write(before.join("out"), old).unwrap();
        }
        fs::write(scratch.root().join("in"), b"data").unwrap();
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(before.join("out")));
        fs::rename(&before, &after).unwrap();
        // somebody else's, in the place of the first
        fs::create_dir(&before).unwrap();
        fs::write(before.join("out"), b"another").unwrap();
        let input = scratch.root().join("in");
        scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(input)).assert_done();
        receiver.wait(BOUND).assert_done();
        assert_eq!(fs::read(after.join("out")).unwrap(), b"data");
        assert_eq!(fs::read(before.join("out")).unwrap(), b"another");
        for dir in [before, after] {
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
        }
    }
}
