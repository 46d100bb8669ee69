//! Some connections, each in a task of one thread. Futures are dropped now and then, and made again.

use core::time::Duration;

use superpipe::Reason;
use superpipe_tokio::{Connection, RecvError};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::HANG_TIMEOUT;
use super::super::message::{BYTES_MAX, Message, Pool, Side};
use super::super::talk::pause;
use super::{Plan, Visit};
use crate::random::Random;

/// Longest bounded spin of a connection, in microseconds.
const SPIN_US_MAX: usize = 50;
/// After so long a future is dropped now and then, in microseconds.
const PATIENCE_US: [usize; 2] = [1, 5000];

pub(super) fn run(visit: &Visit<'_>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot make a runtime: {error}"))?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let mut tasks = JoinSet::new();
        for connection in 0..visit.connections() {
            let (plan, address) = (visit.plan(connection), visit.address.clone());
            let pool = Pool::new(visit.seed);
            tasks.spawn_local(async move { talk(plan, &address, &pool).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|error| error.to_string())??;
        }
        Ok(())
    })
}

async fn talk(plan: Plan, address: &superpipe::Address, pool: &Pool) -> Result<(), String> {
    let Plan { id, questions, drops, options, mut random } = plan;
    let failed = |error: superpipe::Error| format!("{id:?}: {error}");
    let mut connection = Connection::connect(address, options, HANG_TIMEOUT).await.map_err(failed)?;
    connection.set_spin(Duration::from_micros(random.below(SPIN_US_MAX) as u64));
    let mut room = vec![0; BYTES_MAX];
    for number in 1..=questions {
        sleep(pause(&mut random)).await;
        let question = Message::new(pool, id, Side::Visitor, number);
        within(connection.send(question.tag(), &[question.content(pool)])).await?.map_err(failed)?;
        if drops && number == questions {
            return Ok(());
        }
        let answer = Message::new(pool, id, Side::Host, number);
        within(hear(&mut connection, pool, answer, &mut random, &mut room)).await??;
    }
    within(connection.flush()).await?.map_err(failed)?;
    connection.close(Reason::DONE, HANG_TIMEOUT).await.map_err(failed)
}

/// Receives an answer. A future that is dropped loses nothing.
async fn hear(
    connection: &mut Connection,
    pool: &Pool,
    answer: Message,
    random: &mut Random,
    room: &mut [u8],
) -> Result<(), String> {
    loop {
        let patience =
            if random.chance(70) { HANG_TIMEOUT } else { random.time(PATIENCE_US[0], PATIENCE_US[1]) };
        if random.chance(50) {
            match timeout(patience, connection.recv_message(BYTES_MAX)).await {
                Ok(Ok(message)) => {
                    answer.check(pool, message.tag, &message.bytes)?;
                    connection.recycle(message.bytes);
                    return Ok(());
                }
                Ok(Err(error)) => return Err(format!("{answer:?}: {error}")),
                Err(_) => {}
            }
        } else {
            match timeout(patience, connection.recv(&mut [&mut *room])).await {
                Ok(Ok(received)) => return answer.check(pool, received.tag, &room[..received.bytes]),
                Ok(Err(RecvError::NeedsOwnedBuffer(_))) | Err(_) => {}
                Ok(Err(error)) => return Err(format!("{answer:?}: {error}")),
            }
        }
    }
}

async fn within<T>(work: impl Future<Output = T>) -> Result<T, String> {
    timeout(HANG_TIMEOUT, work).await.map_err(|_| format!("starved for {} s", HANG_TIMEOUT.as_secs()))
}
