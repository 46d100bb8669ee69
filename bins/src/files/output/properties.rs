//! Properties that a file takes over from the file that it replaces: owner, group, mode, access list and `user.` attributes.
//!
//! A process that may not set the owner or the group keeps the rest, and removes permissions from the mode, so that the new file
//! permits nobody what the old file denied. setuid and setgid are never kept: the kernel clears them in a file that is written.

use super::acl::{self, Acl};
use super::directory::Directory;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    FileType, Gid, Mode, OFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fremovexattr,
    fsetxattr, fstat, getxattr, listxattr,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Most bytes of a list of attributes, and of one attribute: the kernel's limits.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// Prefix of the attributes that users set. The others belong to the system and describe contents or programs: they do not apply
/// to the new file.
const USER_PREFIX: &[u8] = b"user.";

/// Identity of a file, independent of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Properties of a regular file that another file can take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileProperties {
    id: FileId,
    mode: u32,
    uid: u32,
    gid: u32,
    /// None if the file has none; [`Acl::UNREADABLE`] if that is unknown
    acl: Option<Acl>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Properties that the new file shares with the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SharedProperties {
    owner: bool,
    group: bool,
    acl: bool,
}

impl FileProperties {
    /// Reads the properties of the file with this name, links not followed. Returns None if there is none.
    ///
    /// # Errors
    /// The name does not belong to a regular file.
    pub(super) fn read(directory: &Directory, name: &OsStr) -> io::Result<Option<Self>> {
        let file = match directory.open_file(name, OFlags::PATH) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::other(
                "its name now belongs to a link, pipe, device or directory, which was not replaced",
            ));
        }
        let readable = ReadableFile::new(&file, directory, name);
        let acl = readable.as_ref().map_or(Err(Errno::NOENT), |it| it.attribute(acl::ATTRIBUTE.as_bytes()));
        Ok(Some(Self {
            id: FileId { device: found.st_dev, inode: found.st_ino },
            mode: found.st_mode & 0o777,
            uid: found.st_uid,
            gid: found.st_gid,
            acl: acl.map_or(Some(Acl::UNREADABLE), |found| found.map(Acl::new)),
            attributes: readable.as_ref().map(ReadableFile::user_attributes).unwrap_or_default(),
        }))
    }

    pub(super) const fn id(&self) -> FileId {
        self.id
    }

    /// Returns the owner.
    pub(super) const fn uid(&self) -> u32 {
        self.uid
    }

    /// Gives these properties to a file of this process, as far as that is permitted.
    ///
    /// # Errors
    /// The mode cannot be set.
    pub(super) fn apply_to(&self, file: &File) -> io::Result<()> {
        remove_user_attributes(file);
        for (name, value) in &self.attributes {
            let _ = fsetxattr(file, name, value, XattrFlags::empty());
        }
        // The group comes first: after a change of the owner, only a privileged process may change the group.
        let found = fstat(file)?;
        if found.st_gid != self.gid {
            let _ = fchown(file, None, Some(Gid::from_raw(self.gid)));
        }
        let found = fstat(file)?;
        let (owner, group) = (found.st_uid == self.uid, found.st_gid == self.gid);
        self.apply_rights_to(file, owner, group)?;
        if !owner && fchown(file, Some(Uid::from_raw(self.uid)), None).is_ok() {
            // A process that may change the owner may still not be permitted to act for the new one: then a stricter mode stays.
            let _ = self.apply_rights_to(file, true, group);
        }
        Ok(())
    }

    /// Gives the access list and the mode to a file. `owner` and `group` are true if it has the same owner and group.
    fn apply_rights_to(&self, file: &File, owner: bool, group: bool) -> io::Result<()> {
        let same = SharedProperties { owner, group, acl: self.apply_acl_to(file, owner, group) };
        let mode = self.mode_with(same);
        if fstat(file)?.st_mode & 0o7777 != mode {
            fchmod(file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Gives the access list. If that fails, removes any list of the file, such as one from its directory. Returns true if the two
    /// files agree.
    fn apply_acl_to(&self, file: &File, same_owner: bool, same_group: bool) -> bool {
        if let Some(acl) = &self.acl
            && same_group
            && acl.is_readable()
        {
            let most = if same_owner { 0o7 } else { self.mode >> 6 };
            let given = acl.limited(most);
            if fsetxattr(file, acl::ATTRIBUTE, given.bytes(), XattrFlags::empty()).is_ok() {
                return true;
            }
        }
        let _ = fremovexattr(file, acl::ATTRIBUTE);
        self.acl.is_none()
    }

    /// Returns the mode of a file that shares these properties.
    fn mode_with(&self, same: SharedProperties) -> u32 {
        let [owner, mut group, mut other] = [6, 3, 0].map(|shift| self.mode >> shift & 0o7);
        if let Some(acl) = self.acl.as_ref().filter(|_| !same.acl) {
            (group, other) = acl.without(group, other);
        }
        if !same.group {
            // members of the old group are among others now, and others may be members of the new group
            group &= other;
            other = group;
        }
        if !same.owner {
            // the old owner is a member of the group or among others
            group &= owner;
            other &= owner;
        }
        owner << 6 | group << 3 | other
    }
}

/// A file in a form in which its attributes can be read.
enum ReadableFile {
    /// Its path in /proc, by which attributes can be read although the descriptor is an O_PATH one.
    ByName(String),
    /// The file opened for reading, if there is no /proc.
    Opened(File),
}

impl ReadableFile {
    /// Returns None if there is no /proc, and the file may not be read.
    fn new(file: &File, directory: &Directory, name: &OsStr) -> Option<Self> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        if Path::new(&path).exists() {
            return Some(Self::ByName(path));
        }
        let opened = directory.open_file(name, OFlags::RDONLY).ok()?;
        let id = |file: &File| fstat(file).ok().map(|found| (found.st_dev, found.st_ino));
        (id(&opened) == id(file)).then_some(Self::Opened(opened))
    }

    /// Reads an attribute. Returns None if the file has none of this name.
    ///
    /// # Errors
    /// The attribute cannot be read.
    fn attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let mut value = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
        let read = match self {
            Self::ByName(path) => getxattr(path, name, spare_capacity(&mut value)),
            Self::Opened(file) => fgetxattr(file, name, spare_capacity(&mut value)),
        };
        match read {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
            Ok(_) => {
                value.shrink_to_fit();
                Ok(Some(value))
            }
        }
    }

    /// Returns the attributes that users set, as far as this process may read them.
    fn user_attributes(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut names = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
        let listed = match self {
            Self::ByName(path) => listxattr(path, spare_capacity(&mut names)),
            Self::Opened(file) => flistxattr(file, spare_capacity(&mut names)),
        };
        let names = if listed.is_ok() { user_attribute_names(&names) } else { Vec::new() };
        names.into_iter().filter_map(|name| Some((name.to_owned(), self.attribute(name).ok()??))).collect()
    }
}

/// Removes the attributes that users set, and with them those of an earlier [`FileProperties::apply_to`].
fn remove_user_attributes(file: &File) {
    let mut names = Vec::with_capacity(ATTRIBUTE_BYTES_MAX);
    if flistxattr(file, spare_capacity(&mut names)).is_ok() {
        for name in user_attribute_names(&names) {
            let _ = fremovexattr(file, name);
        }
    }
}

/// Returns the names in a list that are those of attributes that users set.
fn user_attribute_names(list: &[u8]) -> Vec<&[u8]> {
    list.split(|&byte| byte == 0).filter(|name| name.starts_with(USER_PREFIX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_file_permits_no_more_than_the_old_one() {
        let mode_with = |mode, owner, group| {
            let id = FileId { device: 0, inode: 0 };
            let kept = FileProperties { id, mode, uid: 0, gid: 0, acl: None, attributes: Vec::new() };
            kept.mode_with(SharedProperties { owner, group, acl: true })
        };
        for (mode, owner, group, expected) in [
            (0o664, true, true, 0o664),
            (0o664, false, true, 0o664),
            (0o660, false, true, 0o660),
            (0o660, true, false, 0o600),
            (0o664, true, false, 0o644),
            (0o606, true, false, 0o600),
            (0o666, false, false, 0o666),
            (0o066, false, true, 0o000),
            (0o755, false, false, 0o755),
            (0o570, false, true, 0o550),
        ] {
            assert_eq!(mode_with(mode, owner, group), expected, "{mode:o} {owner} {group}");
        }
    }
}
