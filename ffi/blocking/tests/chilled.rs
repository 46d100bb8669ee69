//! Memory that was never written is made resident before it is copied to, a window ahead.

use core::time::Duration;

use superpipe_core::Length;

use super::played::{LAYOUT, over};
use crate::os::cold::{make_resident, to_huge_page_end};
use crate::os::page::page_bytes;
use crate::{ErrorKind, Options, RecvBuf};

/// Twice as many are too few for a huge page, so that residency shows page by page.
const PAGES: usize = 60;
/// One chunk, which is all that comes.
const CAME: usize = LAYOUT.block_bytes as usize;

fn resident_pages(buffer: &[u8]) -> usize {
    let mut answers = vec![0_u8; buffer.len() / page_bytes()];
    // SAFETY: the buffer begins at a page and is whole pages long, and there is a byte for each.
    let status =
        unsafe { libc::mincore(buffer.as_ptr().cast_mut().cast(), buffer.len(), answers.as_mut_ptr()) };
    assert_eq!(status, 0);
    answers.iter().filter(|&&answer| answer & 1 == 1).count()
}

#[test]
fn cold_memory_becomes_resident_before_the_message_arrives() {
    if !make_resident(&mut RecvBuf::new(page_bytes()).unwrap()) {
        return; // before Linux 5.14
    }
    let mut buffer = RecvBuf::new(2 * PAGES * page_bytes()).unwrap();
    // A window ends where a huge page could: of two neighbours one at least has no such place inside.
    let (first, second) = buffer.split_at_mut(PAGES * page_bytes());
    let buffer = if to_huge_page_end(first) == first.len() { first } else { second };
    let announced = (PAGES - 4) * page_bytes();
    let mut sent = 0;
    let mut id = None;
    let mut receiving = over(Options::default(), move |direct, end| {
        let id = *id.get_or_insert_with(|| end.start(1, Length::Exact(announced as u64)).unwrap());
        if sent < CAME {
            sent += end.push(direct, id, &[&vec![7; CAME - sent]]).unwrap();
        }
    });
    let soon = Duration::from_millis(50);
    let error = receiving.recv_into_cold(&mut [&mut *buffer], soon.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(buffer.iter().take_while(|byte| **byte == 7).count(), CAME);
    assert_eq!(resident_pages(buffer), PAGES - 4);
}
