//! Models of the budget's [`Pool`]: members that open, grow, give back and close in threads of their own, in every order.

use std::sync::Arc;

use superpipe_core::budget::{Member, Pool, Terms, Use};

use crate::number::Number;

/// A quarter of the limit is reserve.
const LIMIT: u64 = 8;

const NOTHING: Use = Use { used: 0, reserved: 0, grown: 0, cached: 0, members: 0 };

type Small = Pool<Number, 2>;

fn terms() -> Terms {
    Terms { limit_bytes: LIMIT, now_ns: 1 }
}

fn open(pool: &Small, minimum: u64) -> Member {
    pool.open(minimum, terms()).expect("the reserve has room")
}

/// Makes two members, has each play in a thread of its own, and the first thread `meanwhile`. Nothing is left once all are closed.
fn explore(
    begin: fn(&Small) -> [Member; 2],
    plays: [fn(&Small, &mut Member); 2],
    meanwhile: fn(&Small) -> Option<Member>,
) {
    super::check(move || {
        let pool = Arc::new(Small::of(|| Number::new(0)));
        let threads = plays.into_iter().zip(begin(&pool)).map(|(play, mut member)| {
            let pool = pool.clone();
            loom::thread::spawn(move || {
                play(&pool, &mut member);
                member
            })
        });
        let threads = threads.collect::<Vec<_>>();
        let mut members: Vec<_> = meanwhile(&pool).into_iter().collect();
        members.extend(threads.into_iter().map(|thread| thread.join().expect("a member")));
        let bytes: u64 = members.iter().map(|member| pool.bytes(member)).sum();
        assert_eq!(pool.used(), bytes);
        assert!(bytes <= LIMIT);
        members.iter_mut().for_each(|member| pool.close(member));
        assert_eq!(pool.usage(), NOTHING);
    });
}

/// A member with a minimum, and a loan.
fn grown(pool: &Small, minimum: u64, bytes: u64) -> Member {
    let member = open(pool, minimum);
    pool.grow(&member, bytes, terms()).expect("nobody else is there");
    member
}

/// Grows, or is refused.
fn try_to_grow(pool: &Small, member: &Member, bytes: u64) {
    let before = pool.bytes(member);
    let grown = if pool.grow(member, bytes, terms()).is_ok() { bytes } else { 0 };
    assert_eq!(pool.bytes(member), before + grown);
}

/// What one gives back another takes meanwhile, and a third gets its minimum in every order.
#[test]
fn a_minimum_is_there_whoever_grows() {
    explore(
        |pool| [grown(pool, 1, 6), open(pool, 0)],
        [|pool, member| pool.shrink(member, 2), |pool, member| try_to_grow(pool, member, 2)],
        |pool| Some(pool.open_fixed(1, terms()).expect("the reserve has room")),
    );
}

/// Two that want more than there is: at most one gets it.
#[test]
fn two_that_grow_do_not_exceed_what_is_lent() {
    let grow: fn(&Small, &mut Member) = |pool, member| try_to_grow(pool, member, 4);
    explore(
        |pool| [open(pool, 1), open(pool, 1)],
        [grow, grow],
        |pool| {
            assert!(pool.used() <= LIMIT - 2, "two minimums and one loan");
            None
        },
    );
}

/// A member is asked to give back for a minimum, while it leaves its place to the next.
#[test]
fn a_mark_never_outlives_a_loan() {
    super::check(|| {
        let pool = Arc::new(Pool::<_, 1>::of(|| Number::new(0)));
        let mut old = pool.open(1, terms()).expect("the reserve has room");
        pool.grow(&old, 6, terms()).expect("nobody else is there");
        let leaving = {
            let pool = pool.clone();
            loom::thread::spawn(move || {
                pool.close(&mut old);
                let next = pool.open(1, terms()).expect("the reserve has room");
                assert_eq!(pool.excess(&next), 0, "nothing is lent to it");
                next
            })
        };
        let wanted = pool.open_fixed(3, terms()).ok();
        let mut next = leaving.join().expect("a member");
        assert_eq!(pool.used(), if wanted.is_some() { 4 } else { 1 });
        assert_eq!(pool.excess(&next), 0, "nor is it asked to give anything back");
        pool.close(&mut next);
        wanted.into_iter().for_each(|mut wanted| pool.close(&mut wanted));
        assert_eq!(pool.usage(), NOTHING);
    });
}

/// A member that several threads use.
#[test]
fn loans_of_one_member_are_exact() {
    super::check(|| {
        let pool = Arc::new(Small::of(|| Number::new(0)));
        let member = Arc::new(open(&pool, 1));
        let threads = [1, 2].map(|bytes| {
            let (pool, member) = (pool.clone(), member.clone());
            loom::thread::spawn(move || {
                pool.grow(&member, bytes, terms()).expect("both fit");
                pool.shrink(&member, 1);
            })
        });
        for thread in threads {
            thread.join().expect("a user");
        }
        assert_eq!(pool.usage(), Use { used: 2, reserved: 1, grown: 1, cached: 0, members: 1 });
        let mut member = Arc::into_inner(member).expect("no thread has it");
        pool.close(&mut member);
        assert_eq!(pool.usage(), NOTHING);
    });
}
