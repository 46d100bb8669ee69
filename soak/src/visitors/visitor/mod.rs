//! A process that visits: it makes some connections, asks questions, compares the answers, and leaves.

mod blocking;
mod poller;
mod tokio;

use core::time::Duration;
use std::path::Path;

use superpipe::{Address, LandingMode, Options, Tuning};

use super::message::{CONNECTIONS_MAX, Id, Pool};
use super::options::Kind;
use crate::random::Random;

/// Questions of a connection, fewest and most.
const QUESTIONS: [usize; 2] = [4, 120];
/// Visits of a hundred that end without a close, while an answer is on its way.
const DROPS_PERCENT: usize = 30;

/// State of a visitor.
pub(super) struct Visit<'a> {
    pub(super) seed: u64,
    pub(super) number: u32,
    pub(super) address: Address,
    pub(super) pool: &'a Pool,
}

/// Plan of one connection.
struct Plan {
    id: Id,
    questions: u32,
    /// It ends without a close, while an answer is on its way.
    drops: bool,
    options: Options,
    random: Random,
}

impl Visit<'_> {
    fn plan(&self, connection: u32) -> Plan {
        let id = Id::new(self.number, connection);
        let mut random = Random::new(&[self.seed, 2, id.0.into()]);
        let landing = random.pick(&[LandingMode::AtConnect, LandingMode::OnDemand]);
        let tuning = Tuning { landing: Some(landing), ..Tuning::default() };
        let questions = random.doubling(QUESTIONS[0], QUESTIONS[1]);
        Plan {
            id,
            questions: u32::try_from(questions).unwrap_or(u32::MAX),
            drops: random.chance(DROPS_PERCENT),
            options: Options { tuning, ..Options::default() },
            random,
        }
    }

    fn connections(&self) -> u32 {
        let mut random = Random::new(&[self.seed, 3, self.number.into()]);
        let connections = random.doubling(1, CONNECTIONS_MAX as usize);
        u32::try_from(connections).unwrap_or(1)
    }
}

/// Visits the host.
pub(super) fn run(kind: Kind, seed: u64, number: u32, socket: &Path) -> Result<(), String> {
    let pool = Pool::new(seed);
    let visit = Visit { seed, number, address: Address::Shm(socket.to_path_buf()), pool: &pool };
    let visited = match kind {
        Kind::Blocking => blocking::run(&visit),
        Kind::Tokio => tokio::run(&visit),
        Kind::Poller => poller::run(&visit),
    };
    visited.map_err(|text| format!("visitor {number} ({}): {text}", kind.name()))
}

/// Sleeps between two questions, now and then.
fn rest(random: &mut Random) {
    let pause = super::talk::pause(random);
    if pause > Duration::ZERO {
        std::thread::sleep(pause);
    }
}
