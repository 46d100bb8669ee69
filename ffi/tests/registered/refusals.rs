//! What is refused by name: a part that is not there, and a protocol that makes no sense over shared memory.

use superpipe::{Connection, ErrorKind, Listener, Options, Protocol, RegisteredBuf, Tuning};

use crate::{DEADLINE, address, alone, pair};

#[test]
fn a_part_outside_the_buffer_is_refused() {
    let _alone = alone();
    let (mut a, _b) = pair();
    let source = RegisteredBuf::new(100_000).unwrap();
    #[expect(clippy::reversed_empty_ranges, reason = "it is wrong")]
    let parts = [0..100_001, 100_001..100_001, 9..8, usize::MAX - 1..usize::MAX];
    for part in parts {
        let error = a.send_registered(7, &source, part, DEADLINE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(error.to_string().starts_with("the buffer has 100000 bytes, and not those from "), "{error}");
    }
}

#[test]
fn register_over_shared_memory_is_refused_by_both_roles() {
    let _alone = alone();
    let register = Options {
        tuning: Tuning { protocol: Some(Protocol::Register), ..Tuning::default() },
        ..Options::default()
    };
    let is_named = |error: superpipe::Error| {
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        let text = error.to_string();
        assert!(text.contains("protocol register") && text.contains("propose register-cached"), "{text}");
    };
    let address = address();
    is_named(Listener::bind(&address, register).map(drop).unwrap_err());
    let _listener = Listener::bind(&address, Options::default()).unwrap();
    is_named(Connection::connect(&address, register, DEADLINE).map(drop).unwrap_err());
}
