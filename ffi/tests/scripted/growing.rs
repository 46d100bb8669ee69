//! Landing on demand: the peer misbehaves where landing buffers come and go (wire.md 2.5, 5.4, 5.5, 6.4).

use core::time::Duration;

use superpipe::ErrorKind;

use crate::case::{CASE, Call, Case, Seen as Answer};
use crate::peer::script::Step::{
    Connect, Control, Cue, Die, Expect, Hear, Meet, MeetWith, Message, Punch, Send, Take, WarmUp,
};
use crate::peer::script::{
    Carry, GROW, GROW_REFUSED, GROWN, Kind, Of, Patch, RETIRED, Role, SHRINK, Script, Step,
};
use crate::us::{
    Us, recv_all, recv_three, recv_three_without_budget, send_long, send_long_without_budget, send_then_recv,
};

use Carry::{HeldSparse, LargeSparse, Nothing, Segment, SmallSparse, Sparse};
use Kind::{Grant, Hello, Ready, Welcome};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];

/// Landing on demand (wire.md 6.1).
const ON_DEMAND: &[Patch] = &[(44, &[2])];
/// The provision protocol, with a small buffer of 1,024 bytes.
const PROVISION: &[Patch] = &[(13, &[5]), (44, &[2])];
/// Word 2 of GROWN for 64 KiB in blocks of 4 KiB, APART, in groups of 2^2; for more than was agreed; and INSIDE.
const RING: u64 = 4 << 10 | 16 << 32 | 2 << 56 | 1 << 63;
const TOO_LARGE: u64 = 4 << 10 | 129 << 32 | 2 << 56 | 1 << 63;
const INSIDE: u64 = 4 << 10 | 16 << 32;
/// The same ring as the first, in groups of 2^3.
const OTHER_GROUPS: u64 = 4 << 10 | 16 << 32 | 3 << 56 | 1 << 63;
/// The sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, ..CASE }
}

/// A control message about growth. Word 1 holds no number of a transfer.
const fn control(kind: u64, one: u64, two: u64, key: u64, address: u64) -> Step {
    Control([kind, 0, two, key, address, 0, 0], Of::Number(one))
}

/// GROWN of epoch 1 for request 1.
const fn grown(layout: u64, key: u64, slot: u64) -> Step {
    control(GROWN, 1 | 1 << 32, layout, key, slot)
}

/// A script on a warm connection.
macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[MeetWith(ON_DEMAND), WarmUp, $($step),*] };
}

/// This end sends a long message and asks for growth; the peer answers so, and takes the message in the base.
macro_rules! folded {
    ($($step:expr),+ $(,)?) => { on(warm![Hear(GROW), $($step,)+ Take], send_long, OK) };
}

/// The same, and the answer breaks a rule.
macro_rules! wrong_answer {
    ($text:literal, $($step:expr),+ $(,)?) => {
        Case { text: $text, ..on(warm![Hear(GROW), $($step),+], send_long, PROTOCOL) }
    };
}

/// The same by the provision protocol.
macro_rules! small {
    ($($step:expr),* $(,)?) => { &[MeetWith(PROVISION), WarmUp, $($step),*] };
}

/// This end receives, and the peer breaks a rule.
macro_rules! breach {
    ($text:literal, $($step:expr),+ $(,)?) => { Case { text: $text, ..on(warm![$($step,)+ Cue], recv_all, PROTOCOL) } };
}

/// The peer connects, and sends this with GRANT.
macro_rules! granted {
    ($carry:expr, $want:expr) => {
        Case {
            script: &[Connect, Send(Hello, ON_DEMAND, Nothing), Expect(Welcome), Send(Grant, &[], $carry)],
            want: $want,
            ..CASE
        }
    };
}

cases! {
    a_grow_without_an_answer: on(warm![Take], send_long, OK);
    a_grow_that_is_refused: folded!(control(GROW_REFUSED, 1, 0, 1, 0));
    a_slot_that_no_segment_has: folded!(grown(RING, 0, 2), Hear(RETIRED));
    a_slot_far_beyond_the_segment: folded!(grown(RING, 0, u64::MAX), Hear(RETIRED));
    a_key_where_there_is_none: folded!(grown(RING, 1, 0), Hear(RETIRED));
    a_ring_larger_than_was_agreed: wrong_answer!("wrong number or layout", grown(TOO_LARGE, 0, 0));
    a_ring_of_other_groups: wrong_answer!("wrong number or layout", grown(OTHER_GROUPS, 0, 0));
    a_ring_with_slot_lines_inside: wrong_answer!("wrong number or layout", grown(INSIDE, 0, 0));
    an_epoch_out_of_turn: wrong_answer!("wrong number or layout", control(GROWN, 1 | 2 << 32, RING, 0, 0));
    an_answer_to_another_grow: wrong_answer!("an answer to no GROW", control(GROWN, 2 | 1 << 32, RING, 0, 0));
    a_grant_without_room_in_the_budget:
        on(warm![Hear(GROW), grown(RING, 0, 0), Hear(RETIRED), Take], send_long_without_budget, OK);
    a_grant_that_comes_once_the_message_is_over:
        on(warm![Hear(GROW), Take, grown(RING, 0, 0), Hear(RETIRED), Message(1, 2000)], send_then_recv, OK);
    a_shrink_of_what_came_once_the_message_was_over: on(
        warm![
            Hear(GROW), Take, grown(RING, 0, 0), Hear(RETIRED), control(SHRINK, 1, 2, 0, 0), Hear(RETIRED),
            Message(1, 2000)
        ],
        send_then_recv, OK
    );
    a_shrink_while_an_epoch_is_granted: wrong_answer!(
        "SHRINK of an epoch", grown(RING, 0, 0), control(SHRINK, 1, 2, 0, 0)
    );
    a_peer_that_dies_when_it_is_asked: on(warm![Hear(GROW), Die], send_long, LOST);
    a_peer_that_dies_once_it_has_granted: on(warm![Hear(GROW), grown(RING, 0, 1), Die], send_long, LOST);
    growth_where_none_was_agreed: Case {
        text: "does not grow",
        ..on(&[Meet, WarmUp, control(GROW, 1, 64 << 10, 0, 0), Cue], recv_all, PROTOCOL)
    };

    a_granted_ring_that_stays_empty:
        on(warm![control(GROW, 1, 64 << 10, 0, 0), Cue, Hear(GROWN), Message(1, 2000), Message(2, 8), Message(3, 500), Message(4, 40)], recv_three, OK);
    a_granted_ring_that_comes_back: on(
        warm![
            control(GROW, 1, 512 << 10, 0, 0), Cue, Hear(GROWN), control(RETIRED, 1, 0, 0, 0), Message(1, 2000),
            control(GROW, 2, 512 << 10, 0, 0), Hear(GROWN), control(RETIRED, 2, 0, 0, 0), Message(2, 2000),
            Message(3, 1), Message(4, 1)
        ],
        recv_three, OK
    );
    a_grow_that_finds_no_room_in_the_budget: on(
        warm![
            Cue, control(GROW, 1, 64 << 10, 0, 0), Hear(GROW_REFUSED), Message(1, 2000), Message(2, 8),
            Message(3, 500), Message(4, 40)
        ],
        recv_three_without_budget, OK
    );
    a_grow_before_the_last_one_is_over: on(
        warm![
            control(GROW, 1, 64 << 10, 0, 0), Cue, Hear(GROWN), control(GROW, 2, 128 << 10, 0, 0),
            Message(1, 2000), control(RETIRED, 1, 0, 0, 0), Hear(GROWN), Message(2, 8), Message(3, 500),
            Message(4, 40)
        ],
        recv_three, OK
    );
    retired_before_its_chunks_came: Case {
        text: "unread chunks",
        ..on(
            warm![control(GROW, 1, 64 << 10, 0, 0), Cue, Hear(GROWN), control(RETIRED, 0, 1_000_000, 0, 0)],
            recv_all, PROTOCOL
        )
    };
    a_peer_that_takes_all_pages_away: on(
        warm![
            control(GROW, 1, 512 << 10, 0, 0), Cue, Hear(GROWN), Punch, Message(1, 2000), Message(2, 2000),
            Message(3, 8), Message(4, 8)
        ],
        recv_three, OK
    );
    a_peer_that_dies_while_it_is_granted: on(warm![control(GROW, 1, 512 << 10, 0, 0), Die], recv_all, LOST);
    grow_twice: breach!("GROW before", control(GROW, 1, 64 << 10, 0, 0), control(GROW, 2, 64 << 10, 0, 0));
    a_shrink_of_the_base: breach!("SHRINK of an epoch", control(SHRINK, 0, 1, 0, 0));
    retired_of_what_was_never_granted: breach!("RETIRED of an epoch", control(RETIRED, 1, BEFORE_FIRST, 0, 0));

    accept_a_sparse_segment: Case {
        script: &[
            Connect, Send(Hello, ON_DEMAND, Nothing), Expect(Welcome), Send(Grant, &[], Sparse), Expect(Ready), WarmUp
        ],
        want: OK,
        ..CASE
    };
    connect_to_a_sparse_segment: Case { role: Role::Listens, script: warm![], want: OK, ..CASE };
    accept_a_small_buffer: on(small![Cue, Message(1, 500), Message(2, 8), Message(3, 800), Message(4, 40)], recv_three, OK);
    connect_to_a_small_buffer: Case { role: Role::Listens, script: small![], want: OK, ..CASE };
    accept_a_segment_without_a_small_buffer: Case {
        script: &[Connect, Send(Hello, PROVISION, Nothing), Expect(Welcome), Send(Grant, &[], SmallSparse)],
        want: PROTOCOL,
        ..CASE
    };
    a_peer_that_takes_the_small_buffer_away:
        on(small![Punch, Cue, Message(1, 500), Message(2, 8), Message(3, 800), Message(4, 40)], recv_three, OK);
    // 2 MiB by a small buffer: each piece waits until the one before it is taken.
    a_slot_that_is_the_small_buffer: Case {
        limit: Duration::from_secs(60),
        ..on(small![Hear(GROW), grown(RING, 0, 2), Hear(RETIRED), Take], send_long, OK)
    };
    retired_of_the_small_buffer_that_is_in_use: Case {
        text: "RETIRED of an epoch",
        ..on(small![control(RETIRED, 0, 0, 0, 0), Cue], recv_all, PROTOCOL)
    };
    a_grow_of_the_small_buffer_that_comes_back: on(
        small![
            control(GROW, 1, 64 << 10, 0, 0), Cue, Hear(GROWN), control(RETIRED, 1, 0, 0, 0), Message(1, 700),
            Message(2, 8), Message(3, 800), Message(4, 40)
        ],
        recv_three, OK
    );
    accept_a_segment_whose_seals_can_change: granted!(Segment, PROTOCOL);
    accept_a_sparse_segment_that_is_small: granted!(SmallSparse, PROTOCOL);
    accept_a_sparse_segment_that_is_large: granted!(LargeSparse, PROTOCOL);
    accept_a_sparse_segment_that_is_held: granted!(HeldSparse, PROTOCOL);
}
