//! Nothing is sent for no bytes, but for a message of no bytes and the end of a stream; too many bytes are refused
//! before any of it is.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Length, Origin, RefusedSend, TransferId};
use superpipe_testkit::{Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    /// And a transfer of this length that was started.
    fn new(length: Length) -> (Self, TransferId) {
        let fabric = F::new(&Setup { send_queue: 8, ..Setup::new(LAYOUT, 1) });
        let mut ends = [0, 1].map(|side| {
            Endpoint::new(&fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
        });
        let id = ends[0].start(1, length).unwrap();
        (Self { fabric, ends }, id)
    }

    /// The call gives this, and writes nothing.
    fn is_silent<T: PartialEq + core::fmt::Debug>(
        &mut self,
        call: impl FnOnce(&mut Endpoint<F>, &mut F) -> T,
        gives: T,
    ) {
        let writes = self.fabric.write_counts(0).writes;
        assert_eq!(call(&mut self.ends[0], &mut self.fabric), gives, "{}", F::NAME);
        assert_eq!(self.fabric.write_counts(0).writes, writes, "{}: something was written", F::NAME);
    }

    fn push(&mut self, id: TransferId, payload: &[u8]) {
        assert_eq!(self.ends[0].push(&mut self.fabric, id, &[payload]), Ok(payload.len()), "{}", F::NAME);
    }

    /// Receives the transfer at end 1, up to its end.
    fn received(&mut self) -> Vec<u8> {
        let (mut place, mut bytes) = (vec![0; 4096], 0);
        for _ in 0..1000 {
            let pulled = self.ends[1].pull(&mut self.fabric, &mut [&mut place[bytes..]]);
            bytes += pulled.bytes;
            if pulled.end == End::Fin {
                place.truncate(bytes);
                return place;
            }
            for end in &mut self.ends {
                end.progress(&mut self.fabric);
                assert_eq!(end.closed(), None, "{}", F::NAME);
            }
            self.fabric.step();
        }
        panic!("{}: it came to no end", F::NAME);
    }
}

/// The same on both fabrics.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<superpipe_testkit::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<superpipe_testkit::Posted>(); })* }
    };
}

on_both! {
    a_push_of_nothing_sends_nothing
    a_push_of_nothing_is_a_message_of_no_bytes
    nothing_can_not_be_reserved
    a_commit_of_nothing_sends_nothing
    a_commit_of_more_than_was_reserved_is_refused
    a_push_of_more_than_is_left_is_refused
    a_message_is_not_finished
    an_empty_stream_is_an_end
}

fn a_push_of_nothing_sends_nothing<F: TestFabric>() {
    for length in [Length::Exact(200), Length::Stream] {
        let (mut t, id) = Ends::<F>::new(length);
        t.is_silent(|end, fabric| end.push(fabric, id, &[]), Ok(0));
        t.push(id, &[1; 100]);
        t.is_silent(|end, fabric| end.push(fabric, id, &[]), Ok(0));
        t.is_silent(|end, fabric| end.push(fabric, id, &[&[], &[]]), Ok(0));
        t.is_silent(|end, fabric| end.push_from(fabric, id, &[&[9; 5], &[9; 5]], 10), Ok(0));
        t.push(id, &[2; 99]);
        t.is_silent(|end, fabric| end.push(fabric, id, &[]), Ok(0));
        t.push(id, &[2]);
        if length == Length::Stream {
            t.is_silent(|end, fabric| end.push(fabric, id, &[]), Ok(0));
            t.ends[0].finish(&mut t.fabric, id).unwrap();
        }
        assert_eq!(t.received(), [[1; 100], [2; 100]].concat(), "{}", F::NAME);
        t.is_silent(|end, fabric| end.push(fabric, id, &[]), Err(RefusedSend::NotOpen));
    }
}

fn a_push_of_nothing_is_a_message_of_no_bytes<F: TestFabric>() {
    let (mut t, id) = Ends::<F>::new(Length::Exact(0));
    t.is_silent(|end, fabric| end.push(fabric, id, &[&[1]]), Err(RefusedSend::WrongLength));
    t.push(id, &[]);
    assert_eq!(t.received(), [], "{}", F::NAME);
    t.is_silent(|end, fabric| end.push(fabric, id, &[]), Err(RefusedSend::NotOpen));
}

fn nothing_can_not_be_reserved<F: TestFabric>() {
    for (length, max_bytes) in [(Length::Exact(0), 9), (Length::Exact(9), 0), (Length::Stream, 0)] {
        let (mut t, id) = Ends::<F>::new(length);
        let reserve =
            |end: &mut Endpoint<F>, fabric: &mut F| end.reserve(fabric, id, max_bytes).map(|it| it.bytes());
        t.is_silent(reserve, Err(RefusedSend::WrongLength));
        t.is_silent(|end, fabric| end.commit(fabric, id, 1), Err(RefusedSend::WrongLength));
    }
}

fn a_commit_of_nothing_sends_nothing<F: TestFabric>() {
    let (mut t, id) = Ends::<F>::new(Length::Exact(100));
    t.push(id, &[1; 40]);
    let reserved = t.ends[0].reserve(&mut t.fabric, id, 60).unwrap();
    assert_eq!(reserved.bytes(), 60, "{}", F::NAME);
    t.is_silent(|end, fabric| end.commit(fabric, id, 0), Ok(()));
    for (at, bytes) in reserved.spans() {
        t.fabric.fill(reserved.memory, at, &vec![2; bytes as usize]);
    }
    t.ends[0].commit(&mut t.fabric, id, 60).unwrap();
    assert_eq!(t.received(), [&[1; 40][..], &[2; 60]].concat(), "{}", F::NAME);
}

fn a_commit_of_more_than_was_reserved_is_refused<F: TestFabric>() {
    let (mut t, id) = Ends::<F>::new(Length::Stream);
    let refused = Err(RefusedSend::WrongLength);
    t.is_silent(|end, fabric| end.commit(fabric, id, 1), refused);
    let reserved = t.ends[0].reserve(&mut t.fabric, id, 60).unwrap();
    t.is_silent(|end, fabric| end.commit(fabric, id, 61), refused);
    for (at, bytes) in reserved.spans() {
        t.fabric.fill(reserved.memory, at, &vec![3; bytes as usize]);
    }
    t.ends[0].commit(&mut t.fabric, id, 60).unwrap();
    // It is used up, and so it is by whatever else is sent.
    t.is_silent(|end, fabric| end.commit(fabric, id, 1), refused);
    t.ends[0].reserve(&mut t.fabric, id, 60).unwrap();
    t.push(id, &[4; 9]);
    t.is_silent(|end, fabric| end.commit(fabric, id, 1), refused);
    t.ends[0].finish(&mut t.fabric, id).unwrap();
    assert_eq!(t.received(), [&[3; 60][..], &[4; 9]].concat(), "{}", F::NAME);
}

fn a_push_of_more_than_is_left_is_refused<F: TestFabric>() {
    let (mut t, id) = Ends::<F>::new(Length::Exact(100));
    t.is_silent(|end, fabric| end.push(fabric, id, &[&[1; 101]]), Err(RefusedSend::WrongLength));
    t.push(id, &[1; 40]);
    t.is_silent(|end, fabric| end.push(fabric, id, &[&[1; 61]]), Err(RefusedSend::WrongLength));
    let reserved = t.ends[0].reserve(&mut t.fabric, id, 61).map(|it| it.bytes());
    assert_eq!(reserved, Ok(60), "{}", F::NAME);
    t.push(id, &[2; 60]);
    assert_eq!(t.received(), [&[1; 40][..], &[2; 60]].concat(), "{}", F::NAME);
}

fn a_message_is_not_finished<F: TestFabric>() {
    let (mut t, id) = Ends::<F>::new(Length::Exact(100));
    for pushed in [40, 60] {
        t.is_silent(|end, fabric| end.finish(fabric, id), Err(RefusedSend::WrongLength));
        t.push(id, &vec![1; pushed]);
    }
    assert_eq!(t.received(), [1; 100], "{}", F::NAME);
    t.is_silent(|end, fabric| end.finish(fabric, id), Err(RefusedSend::NotOpen));
}

fn an_empty_stream_is_an_end<F: TestFabric>() {
    let (mut t, id) = Ends::<F>::new(Length::Stream);
    t.ends[0].finish(&mut t.fabric, id).unwrap();
    assert_eq!(t.received(), [], "{}", F::NAME);
    assert_eq!(t.ends[0].counters().chunks_sent, 1, "{}", F::NAME);
}
