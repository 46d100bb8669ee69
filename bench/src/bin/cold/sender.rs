//! The other process: sends as many messages as it is asked for, until the connection is closed.

use superpipe::{Address, ErrorKind, Listener, Options as ConnectionOptions};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::Buffer;
use superpipe_bench::meeting::{DEADLINE, fail};
use superpipe_bench::pattern;

/// What the receiver asks for: so many messages of so many bytes, with the contents of this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) count: u64,
    pub(crate) bytes: usize,
    pub(crate) number: u64,
}

impl Wish {
    pub(crate) const fn to_words(self) -> [[u8; 8]; 3] {
        [self.count.to_le_bytes(), (self.bytes as u64).to_le_bytes(), self.number.to_le_bytes()]
    }

    fn from_words(words: [[u8; 8]; 3]) -> Self {
        let [count, bytes, number] = words.map(u64::from_le_bytes);
        Self { count, bytes: usize::try_from(bytes).unwrap_or(usize::MAX), number }
    }
}

pub(crate) fn serve(address: &Address, with: ConnectionOptions, bytes_max: usize) -> Result<(), Failure> {
    let mut listener = Listener::bind(address, with).map_err(fail)?;
    let mut connection = listener.accept(DEADLINE).map_err(fail)?;
    drop(listener);
    let mut buffer = Buffer::new(bytes_max, false)?;
    loop {
        let mut words = [[0; 8]; 3];
        let [first, second, third] = &mut words;
        match connection.recv_into(&mut [first, second, third], DEADLINE) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Closed(_)) => return Ok(()),
            Err(error) => return Err(fail(error)),
        }
        let wish = Wish::from_words(words);
        let Some(message) = buffer.bytes_mut().get_mut(..wish.bytes) else {
            return Err(Failure::Usage(format!("{} bytes are more than {bytes_max}", wish.bytes)));
        };
        pattern::fill(wish.number, message);
        for _ in 0..wish.count {
            connection.send(wish.number, &[message], DEADLINE).map_err(fail)?;
        }
    }
}
