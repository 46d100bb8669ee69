//! Makes the connections of the crowd, and reports what went over them.

use core::fmt::Write;
use core::time::Duration;
use std::path::Path;

use superpipe::{Address, Connection, Listener, Options, Tuning, WaitStrategy};

use super::link::{Link, Role};
use super::memory::Memory;
use super::{CrowdOptions, HANG_TIMEOUT};

fn library_options(options: &CrowdOptions) -> Options {
    Options {
        wait: WaitStrategy::Yield,
        idle_timeout: HANG_TIMEOUT,
        tuning: Tuning { landing: Some(options.landing()), ..Tuning::default() },
        ..Options::default()
    }
}

/// Accepts all connections. The other process names each by its first message.
pub(crate) fn accept(options: &CrowdOptions, socket: &Path) -> Result<Vec<Link>, String> {
    let failed = |error: superpipe::Error| format!("accept: {error}");
    let mut listener =
        Listener::bind(&Address::Shm(socket.to_path_buf()), library_options(options)).map_err(failed)?;
    let accept = |_| {
        let mut connection = listener.accept(HANG_TIMEOUT).map_err(failed)?;
        let mut index = [0; 4];
        connection.recv_into(&mut [&mut index], HANG_TIMEOUT).map_err(failed)?;
        Ok(Link::new(u32::from_le_bytes(index), Role::Parent, connection))
    };
    (0..options.connections).map(accept).collect()
}

/// Makes all connections, one after the other.
pub(crate) fn connect(options: &CrowdOptions, socket: &Path) -> Result<Vec<Link>, String> {
    let failed = |error: superpipe::Error| format!("connect: {error}");
    let address = Address::Shm(socket.to_path_buf());
    let connect = |index: u32| {
        let mut connection =
            Connection::connect(&address, library_options(options), HANG_TIMEOUT).map_err(failed)?;
        connection.send(0, &[&index.to_le_bytes()], HANG_TIMEOUT).map_err(failed)?;
        Ok(Link::new(index, Role::Child, connection))
    };
    (0..options.connections).map(connect).collect()
}

/// Describes what this process sent and received.
pub(crate) fn report(links: &[Link], role: Role, time: Duration, memory: &Memory) -> String {
    let process = if role == Role::Parent { "this process" } else { "other process" };
    let mut text = format!("{process}: {memory}");
    for (verb, sends) in [("sent", true), ("received", false)] {
        let of_kind = || links.iter().filter(|link| link.sends() == sends);
        let messages = of_kind().map(|link| link.messages);
        let (least, most) = (messages.clone().min().unwrap_or(0), messages.clone().max().unwrap_or(0));
        let bytes: u64 = of_kind().map(|link| link.bytes).sum();
        let (total, rate) = (messages.map(u64::from).sum::<u64>(), bytes as f64 / time.as_secs_f64() / 1e6);
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "; {verb} {total} messages, {least} to {most} by connection, {:.1} GB, {rate:.0} MB/s",
            bytes as f64 / 1e9
        );
    }
    text
}
