//! The clients of one host: a process that survives, and one that is killed once it has been woken and served again.

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use superpipe::{
    Address, Key, Options, PollEvent, PollEvents, Poller, PollerOptions, Reason, TryRecv, TrySend,
};

use crate::{DEADLINE, FLOW, MORE, QUIET, ROUNDS, STOP, SURVIVORS, VICTIMS, WAKE};

/// Number of connections to each address, in a process with clients.
const COUNT: &str = "SUPERPIPE_MANY_COUNT";
/// Line by which a process says that messages flow again.
const FLOWS: &str = "messages flow";

/// Starts the processes of this host, or is one of them.
pub(crate) fn run_or_launch(addresses: &[Address]) {
    match env::var(COUNT) {
        Ok(count) => Clients::new(addresses, count.parse().unwrap()).run(),
        Err(_) => launch(addresses),
    }
}

/// Starts the processes of this host, and kills one.
pub(crate) fn launch(addresses: &[Address]) {
    let (mut survivor, mut victim) = (start(addresses, SURVIVORS), start(addresses, VICTIMS));
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let flows = lines.map_while(Result::ok).any(|line| line.contains(FLOWS));
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(flows, "it ended before");
    // Its output is not for the victim's reader, and a full pipe would stop it.
    std::io::copy(&mut survivor.stdout.take().unwrap(), &mut std::io::stderr()).unwrap();
    assert!(survivor.wait().unwrap().success());
}

fn start(addresses: &[Address], count: u32) -> Child {
    let addresses: Vec<String> = addresses.iter().map(Address::to_string).collect();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "many_are_served_and_outlive_those_killed", "--nocapture"]);
    command.env_remove("SUPERPIPE_MANY_SERVE").env("SUPERPIPE_MANY_CONNECT", addresses.join(" "));
    command.env(COUNT, count.to_string()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The connections of one process, in one poller.
struct Clients {
    poller: Poller,
    /// Tag of all questions: the process, as the server tells processes apart.
    process: u64,
    /// Number of each connection, and of its question.
    asked: HashMap<Key, (usize, usize)>,
    /// Connections that were told to be quiet, and whether the process was woken since.
    quiet: usize,
    is_woken: bool,
    /// Answers while messages flow, over all connections.
    answers: usize,
    room: Vec<u8>,
}

impl Clients {
    fn new(addresses: &[Address], count: u32) -> Self {
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        let mut asked = HashMap::new();
        for address in addresses {
            for _ in 0..count {
                let key = poller.connect(address, Options::default(), DEADLINE).unwrap();
                asked.insert(key, (asked.len(), 0));
            }
        }
        // Processes of two hosts may have the same number.
        let host: u64 = env::var("VM_HOST").map_or(0, |host| host.parse().unwrap());
        let process = host << 32 | u64::from(std::process::id());
        Self { poller, process, asked, quiet: 0, is_woken: false, answers: 0, room: vec![0; 64 << 10] }
    }

    /// Asks until the server tells all connections to stop.
    fn run(mut self) {
        let until = Instant::now() + DEADLINE;
        let mut events = PollEvents::with_capacity(64);
        while !self.asked.is_empty() {
            self.poller.poll(&mut events, until).unwrap();
            assert!(Instant::now() < until, "nothing more happens: {:?}", self.poller);
            for event in &events {
                match event {
                    PollEvent::Connected { connection } => {
                        self.poller.connection(connection).unwrap().set_looks_while_armed(false);
                        self.ask(connection);
                    }
                    PollEvent::Readable { connection } => self.take_answer(connection),
                    PollEvent::ConnectFailed { connection, .. } => {
                        panic!("{:?}", self.poller.take_error(connection))
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Returns a question: bytes by its connection and number.
    fn question(&self, key: Key) -> Vec<u8> {
        // Landing buffers that have not grown hold the longest, with another one beside it.
        const SIZES: [usize; 6] = [0, 8, 64, 400, 2000, 40];
        let (connection, number) = self.asked[&key];
        let seed = connection * 131 + number;
        let size = SIZES[seed % SIZES.len()];
        (0..size).map(|at| (at * 31 + at / 251 + seed * 17).to_le_bytes()[0]).collect()
    }

    fn ask(&mut self, key: Key) {
        let question = self.question(key);
        let sent = self.poller.connection(key).unwrap().try_send(self.process, &[&question]).unwrap();
        assert_eq!(sent, TrySend::Sent, "there is room for one");
    }

    fn take_answer(&mut self, key: Key) {
        let connection = self.poller.connection(key).unwrap();
        let received = match connection.try_recv(&mut [&mut self.room]).unwrap() {
            TryRecv::Received(received) => received,
            TryRecv::Nothing | TryRecv::Incomplete(_) => return,
            other => panic!("{other:?}"),
        };
        if received.tag == WAKE {
            self.is_woken = true;
        } else {
            let question = self.question(key);
            assert!(self.room[..received.bytes] == question, "the answer is the question");
            self.asked.get_mut(&key).unwrap().1 += 1;
        }
        match received.tag {
            MORE => self.ask(key),
            FLOW => {
                self.answers += 1;
                if self.answers == ROUNDS as usize * self.asked.len() {
                    println!("{FLOWS}");
                }
                self.ask(key);
            }
            QUIET => self.quiet += 1,
            STOP => {
                self.asked.remove(&key).unwrap();
                self.poller.remove(key).unwrap().close(Reason::DONE, DEADLINE).unwrap();
            }
            WAKE => {}
            other => panic!("{other}"),
        }
        if self.is_woken && self.quiet == self.asked.len() {
            self.quiet = 0;
            let keys: Vec<Key> = self.asked.keys().copied().collect();
            keys.into_iter().for_each(|key| self.ask(key));
        }
    }
}
