//! The virtual NIC alone, used like verbs.

use superpipe_sim::nic::{Key, Op, PostRefused, QpName, Rights, Wc, World, Wr, status};
use superpipe_sim::{Faults, Profile};

const REMOTE: Rights = Rights { remote_write: true };
const LOCAL: Rights = Rights { remote_write: false };

/// Returns the memory that a write names.
type Named = fn(&mut Two) -> Key;

struct Two {
    world: World,
    qps: [QpName; 2],
    from: Key,
    to: Key,
}

fn two(profile: Profile) -> Two {
    let mut world = World::new(2, profile, Faults::default(), 1);
    let qps = world.connect([0, 1]);
    let from = world.register(0, 16_384, LOCAL, true).unwrap();
    let to = world.register(1, 16_384, REMOTE, true).unwrap();
    let data: Vec<u8> = (0..251).cycle().take(16_384).collect();
    world.bytes_mut(from, 0, 16_384).unwrap().copy_from_slice(&data);
    Two { world, qps, from, to }
}

impl Two {
    fn wr(&self, id: u64, op: Op, bytes: u32) -> Wr {
        Wr { id: Some(id), op, from: self.from, at: 0, bytes, inline: false, delay_ns: 0 }
    }

    fn send(&mut self, wr: Wr) {
        self.world.post(self.qps[0], wr).unwrap();
        self.world.ring_doorbell(self.qps[0]);
    }

    fn completions(&mut self, side: usize) -> Vec<Wc> {
        self.world.run_events(u64::MAX);
        core::iter::from_fn(|| self.world.poll_cq(self.qps[side])).collect()
    }
}

fn done(id: u64, status: u32) -> Wc {
    Wc { id, status, received: None, immediate: None }
}

#[test]
fn a_write_takes_the_modelled_time_packet_by_packet() {
    let profile = Profile::roce_100g();
    let mut t = two(profile);
    let begin = t.world.clock_ns(0);
    let op = Op::Write { to: t.to, at: 0 };
    t.send(t.wr(1, op, 8192));
    let Profile { post_ns, doorbell_ns, fetch_ns, gap_ns, latency_ns, .. } = profile;
    assert_eq!(t.world.clock_ns(0), begin + post_ns + doorbell_ns);
    let first = begin + post_ns + doorbell_ns + fetch_ns + gap_ns + profile.wire_ns(4096) + latency_ns;
    t.world.run_events(first - 1);
    assert_eq!(t.world.bytes(t.to, 0, 4096).unwrap(), [0; 4096]);
    t.world.run_events(first);
    assert_eq!(t.world.bytes(t.to, 0, 4096).unwrap(), t.world.bytes(t.from, 0, 4096).unwrap());
    assert_eq!(t.world.bytes(t.to, 4096, 4096).unwrap(), [0; 4096]);
    let second = first + profile.wire_ns(4096);
    t.world.run_events(second);
    assert_eq!(t.world.bytes(t.to, 0, 8192).unwrap(), t.world.bytes(t.from, 0, 8192).unwrap());
    t.world.run_events(second + latency_ns - 1);
    assert_eq!(t.world.poll_cq(t.qps[0]), None);
    t.world.run_events(second + latency_ns);
    assert_eq!(t.world.poll_cq(t.qps[0]), Some(done(1, status::SUCCESS)));
    assert!(t.world.is_quiescent());
}

#[test]
fn a_forbidden_write_is_a_remote_access_error() {
    let other = |t: &mut Two| t.world.register(1, 4096, LOCAL, true).unwrap();
    let gone = |t: &mut Two| {
        let key = t.world.register(1, 4096, REMOTE, true).unwrap();
        t.world.deregister(key);
        key
    };
    let here = |t: &mut Two| t.world.register(0, 4096, REMOTE, true).unwrap();
    let cases: [(Named, u32); 5] =
        [(other, 0), (gone, 0), (here, 0), (|t| t.to, 16_321), (|t| t.to, u32::MAX)];
    for (key, at) in cases {
        let mut t = two(Profile::roce_100g());
        let bad = key(&mut t);
        t.send(t.wr(1, Op::Write { to: bad, at }, 64));
        t.send(t.wr(2, Op::Write { to: t.to, at: 0 }, 64));
        let all = t.completions(0);
        assert_eq!(all, [done(1, status::REM_ACCESS_ERR), done(2, status::WR_FLUSH_ERR)], "{at}");
        assert_eq!(t.world.bytes(t.to, 0, 16_384).unwrap(), [0; 16_384], "{at}");
        t.send(t.wr(3, Op::Write { to: t.to, at: 0 }, 64));
        assert_eq!(t.completions(0), [done(3, status::WR_FLUSH_ERR)]);
        assert!(t.world.is_quiescent());
    }
}

#[test]
fn sends_and_immediates_complete_receives_in_order() {
    let mut t = two(Profile::roce_100g());
    for (id, at) in [(10, 8192), (11, 8292), (12, 8392)] {
        t.world.post_receive(t.qps[1], id, t.to, at, 100);
    }
    t.send(t.wr(1, Op::Send, 100));
    t.send(t.wr(2, Op::WriteWithImmediate { to: t.to, at: 0, immediate: 7 }, 5000));
    t.send(Wr { id: None, inline: true, ..t.wr(0, Op::Send, 40) });
    assert_eq!(t.completions(0), [done(1, status::SUCCESS), done(2, status::SUCCESS)]);
    let received =
        |id, bytes, immediate| Wc { received: Some(bytes), immediate, ..done(id, status::SUCCESS) };
    let all = [received(10, 100, None), received(11, 5000, Some(7)), received(12, 40, None)];
    assert_eq!(t.completions(1), all);
    for (at, bytes) in [(8192, 100), (0, 5000), (8392, 40)] {
        assert_eq!(t.world.bytes(t.to, at, bytes).unwrap(), t.world.bytes(t.from, 0, bytes).unwrap());
    }
}

#[test]
fn a_send_without_a_receive_or_too_long_for_it_fails() {
    let mut t = two(Profile::roce_100g());
    t.send(t.wr(1, Op::Send, 8));
    assert_eq!(t.completions(0), [done(1, status::RNR_RETRY_EXC_ERR)]);
    let mut t = two(Profile::roce_100g());
    t.world.post_receive(t.qps[1], 9, t.to, 0, 7);
    t.send(t.wr(1, Op::Send, 8));
    assert_eq!(t.completions(0), [done(1, status::REM_INV_REQ_ERR)]);
    assert_eq!(t.completions(1), [Wc { received: Some(8), ..done(9, status::LOC_LEN_ERR) }]);
}

#[test]
fn the_send_queue_is_bounded_and_inline_is_copied() {
    let mut t = two(Profile { send_queue: 2, ..Profile::roce_100g() });
    let op = Op::Write { to: t.to, at: 0 };
    assert_eq!(
        t.world.post(t.qps[0], Wr { inline: true, ..t.wr(1, op, 221) }),
        Err(PostRefused::InlineTooLong { bytes: 221, most: 220 })
    );
    let inline = t.world.post(t.qps[0], Wr { inline: true, ..t.wr(1, op, 64) }).unwrap();
    let read = t.world.post(t.qps[0], Wr { at: 64, ..t.wr(2, Op::Write { to: t.to, at: 64 }, 64) }).unwrap();
    assert_eq!(t.world.post(t.qps[0], t.wr(3, op, 64)), Err(PostRefused::SqFull));
    assert!(t.world.is_read(t.qps[0], inline) && !t.world.is_read(t.qps[0], read));
    // Nothing happens without the doorbell, and changes until then are sent.
    assert_eq!(t.completions(0), []);
    t.world.bytes_mut(t.from, 0, 128).unwrap().fill(1);
    t.world.ring_doorbell(t.qps[0]);
    assert_eq!(t.completions(0), [done(1, status::SUCCESS), done(2, status::SUCCESS)]);
    assert!(t.world.is_read(t.qps[0], read));
    assert_eq!(t.world.bytes(t.to, 0, 3).unwrap(), [0, 1, 2]);
    assert_eq!(t.world.bytes(t.to, 64, 64).unwrap(), [1; 64]);
}

#[test]
fn registration_costs_what_the_model_says() {
    let mut t = two(Profile::roce_100g());
    let before = t.world.clock_ns(0);
    let key = t.world.register(0, 8192, LOCAL, false).unwrap();
    assert_eq!(t.world.clock_ns(0) - before, 16_492 + 2 * 1350);
    t.world.deregister(key);
    assert_eq!(t.world.clock_ns(0) - before, 16_492 + 2 * 1350 + 15_000);
    assert!(t.world.bytes(key, 0, 1).is_err());
}
