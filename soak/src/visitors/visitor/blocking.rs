//! One connection, by calls that wait.

use superpipe::{Connection, Error, ErrorKind, Loan, Reason};

use super::super::HANG_TIMEOUT;
use super::super::message::{BYTES_MAX, Message, Pool, Side};
use super::{Plan, Visit, rest};
use crate::random::Random;

/// Loans that are held, at most.
const HELD_MAX: usize = 3;

pub(super) fn run(visit: &Visit<'_>) -> Result<(), String> {
    let Plan { id, questions, drops, options, mut random } = visit.plan(0);
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let mut connection =
        Connection::connect(&visit.address, options, HANG_TIMEOUT).map_err(failed("connect"))?;
    let mut held = Vec::new();
    let mut room = vec![0; BYTES_MAX];
    for number in 1..=questions {
        rest(&mut random);
        let question = Message::new(visit.pool, id, Side::Visitor, number);
        ask(&mut connection, visit.pool, question, &mut random).map_err(failed("ask"))?;
        if drops && number == questions {
            return Ok(());
        }
        let answer = Message::new(visit.pool, id, Side::Host, number);
        hear(&mut connection, visit.pool, answer, &mut random, &mut held, &mut room)?;
        let most = if number == questions { 0 } else { HELD_MAX };
        while held.len() > most {
            let (loan, answer): (Loan, Message) = held.swap_remove(random.below(held.len()));
            let spans = connection.loan_spans(&loan).map_err(failed("loan"))?;
            answer.check_spans(visit.pool, loan.tag(), spans)?;
            connection.give_back(loan).map_err(|(_, error)| failed("give back")(error))?;
        }
    }
    connection.flush(HANG_TIMEOUT).map_err(failed("flush"))?;
    connection.close(Reason::DONE, HANG_TIMEOUT).map_err(failed("close"))
}

fn ask(
    connection: &mut Connection,
    pool: &Pool,
    question: Message,
    random: &mut Random,
) -> Result<(), Error> {
    let content = question.content(pool);
    if random.chance(50) {
        match connection.reserve(question.tag(), question.bytes, HANG_TIMEOUT) {
            Ok(reserved) => {
                connection.copy_into(&reserved, 0, content)?;
                return Ok(connection.commit(reserved)?);
            }
            // The host grants no larger landing buffer now.
            Err(error) if error.kind() == ErrorKind::Limit => {}
            Err(error) => return Err(error),
        }
    }
    connection.send(question.tag(), &[content], HANG_TIMEOUT)
}

fn hear(
    connection: &mut Connection,
    pool: &Pool,
    answer: Message,
    random: &mut Random,
    held: &mut Vec<(Loan, Message)>,
    room: &mut [u8],
) -> Result<(), String> {
    let failed = |error: Error| format!("{answer:?}: {error}");
    if random.chance(50) {
        match connection.recv_loan(HANG_TIMEOUT) {
            Ok(loan) => {
                let spans = connection.loan_spans(&loan).map_err(failed)?;
                answer.check_spans(pool, loan.tag(), spans)?;
                held.push((loan, answer));
                return Ok(());
            }
            // It cannot be read in place.
            Err(error) if error.kind() == ErrorKind::Usage => {}
            Err(error) => return Err(failed(error)),
        }
    }
    room[..answer.bytes].fill(!answer.content(pool).first().copied().unwrap_or(0));
    let received = connection.recv_into(&mut [room], HANG_TIMEOUT).map_err(failed)?;
    answer.check(pool, received.tag, &room[..received.bytes])
}
