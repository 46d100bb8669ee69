//! Connects two ends over an RDMA device of this host, and writes from one into the memory of the other.
//!
//! `cargo run -p superpipe-verbs --example write -- ADDRESS`, where ADDRESS is an address of this host's RDMA device. Without a device, the
//! example prints how to make a software device and exits with 69: nothing was checked.

use core::error::Error;
use core::net::{IpAddr, SocketAddr};
use core::slice;
use core::time::Duration;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;
use superpipe_verbs::{
    Access, CmEvent, CmEventKind, CmId, ConnectParams, Cq, DeviceList, Error as VerbsError, EventChannel, Mr,
    Pages, Pd, Qp, QpConfig, QpState, RemoteAddr, Rkey, SendFlags, Wc,
};

const BYTES: u32 = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
/// EX_UNAVAILABLE of sysexits.h.
const UNAVAILABLE: u8 = 69;

type Result<T> = core::result::Result<T, Box<dyn Error + Send + Sync>>;

/// One end of the connection: its queue pair, with the memory that the peer writes.
struct End {
    channel: EventChannel,
    id: CmId,
    cq: Cq,
    mr: Mr,
    qp: Qp,
}

fn main() -> Result<ExitCode> {
    let unavailable = match DeviceList::get() {
        Ok(devices) if devices.iter().next().is_some() => None,
        Ok(_) => Some(VerbsError::NoDevice),
        Err(error) => Some(error),
    };
    if let Some(error) = unavailable {
        eprintln!("{error}");
        return Ok(ExitCode::from(UNAVAILABLE));
    }
    let Some(address) = std::env::args().nth(1) else {
        eprintln!(
            "usage: write ADDRESS: an address of this host that has an RDMA device; rdma link names the interfaces"
        );
        return Ok(ExitCode::from(2));
    };
    let address: IpAddr = address.parse()?;

    let channel = EventChannel::create()?;
    let mut listener = CmId::create(&channel)?;
    listener.bind(SocketAddr::new(address, 0))?;
    listener.listen(1)?;
    let to = listener.local_addr().ok_or("the listener has no address")?;
    let passive = thread::spawn(move || accept(&channel));
    let (mut active, remote) = connect(to)?;
    let passive = passive.join().expect("the other thread does not panic")?;

    // SAFETY: the region is this long, and nothing is posted yet.
    unsafe { active.mr.as_ptr().as_ptr().write_bytes(0xA5, BYTES as usize) };
    let start = Instant::now();
    let mut batch = active.qp.batch();
    batch
        .write(1, active.mr.sge(0, BYTES).ok_or("the region is shorter")?, remote, SendFlags::SIGNALED)
        .map_err(|_| "full")?;
    batch.post()?;
    let mut completions = [Wc::default()];
    while active.cq.poll(&mut completions)? == 0 {
        core::hint::spin_loop();
    }
    completions[0].result()?;
    let elapsed = start.elapsed();
    // A completion says that the peer's device has the bytes; on iWARP, only that they are on their way: the disconnect follows them.
    active.id.disconnect()?;
    wait(&passive.channel, CmEventKind::DISCONNECTED)?;
    // SAFETY: the region is this long, and the connection has ended: nobody writes there any more.
    let written = unsafe { slice::from_raw_parts(passive.mr.as_ptr().as_ptr(), BYTES as usize) };
    assert!(written.iter().all(|byte| *byte == 0xA5), "the peer's memory is not what was written");
    println!("wrote {BYTES} bytes in {elapsed:?}");
    Ok(ExitCode::SUCCESS)
}

/// Accepts one connection, and tells the peer its memory.
fn accept(listening: &EventChannel) -> Result<End> {
    let request = wait(listening, CmEventKind::CONNECT_REQUEST)?.request.ok_or("a request without an id")?;
    let (channel, mut id) = (EventChannel::create()?, request);
    id.migrate(&channel)?;
    let mut end = End::new(channel, id)?;
    end.make_ready()?;
    let mut memory = [0; 12];
    memory[..8].copy_from_slice(&end.mr.remote_addr().to_le_bytes());
    memory[8..].copy_from_slice(&end.mr.rkey().0.to_le_bytes());
    end.id.accept(params(end.qp.number(), &memory))?;
    wait(&end.channel, CmEventKind::ESTABLISHED)?;
    Ok(end)
}

/// Connects, and learns the peer's memory.
fn connect(to: SocketAddr) -> Result<(End, RemoteAddr)> {
    let channel = EventChannel::create()?;
    let mut id = CmId::create(&channel)?;
    id.resolve_addr(None, to, 2000)?;
    wait(&channel, CmEventKind::ADDR_RESOLVED)?;
    id.resolve_route(2000)?;
    wait(&channel, CmEventKind::ROUTE_RESOLVED)?;
    let mut end = End::new(channel, id)?;
    end.id.connect(params(end.qp.number(), &[]))?;
    let event = next(&end.channel)?;
    match event.kind {
        CmEventKind::CONNECT_RESPONSE => {
            end.make_ready()?;
            end.id.establish()?;
        }
        // iWARP moves the queue pair itself.
        CmEventKind::ESTABLISHED => {}
        kind => {
            return Err(event
                .failure()
                .map_or_else(|| kind.to_string(), |failure| failure.to_string())
                .into());
        }
    }
    let addr = u64::from_le_bytes(*event.private_data.first_chunk().ok_or("no private data")?);
    let rkey = u32::from_le_bytes(*event.private_data[8..].first_chunk().ok_or("no private data")?);
    Ok((end, RemoteAddr { addr, rkey: Rkey(rkey) }))
}

impl End {
    /// Makes the objects of a connection on the device that the id has found.
    fn new(channel: EventChannel, id: CmId) -> Result<Self> {
        let context = id.context().ok_or("the id has no device")?;
        let pd = Pd::alloc(&context)?;
        let cq = Cq::create(&context, 16, None)?;
        let mr = Mr::register(&pd, Pages::map(BYTES as usize)?, Access::RemoteWrite)?;
        let config = QpConfig { send_depth: 4, receive_depth: 4, inline_bytes: 0 };
        let mut qp = Qp::create(&pd, &cq, &cq, config)?;
        qp.modify(&id.qp_attr(QpState::Init)?)?;
        Ok(Self { channel, id, cq, mr, qp })
    }

    /// Moves the queue pair to INIT again with the access that rdma_cm allows the peer, then to RTR and RTS.
    fn make_ready(&mut self) -> Result<()> {
        for state in [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
            self.qp.modify(&self.id.qp_attr(state)?)?;
        }
        Ok(())
    }
}

fn params(qp_number: u32, private_data: &[u8]) -> ConnectParams<'_> {
    ConnectParams { qp_number, private_data, retries: 7, rnr_retries: 7 }
}

/// Waits for this event.
fn wait(channel: &EventChannel, due: CmEventKind) -> Result<CmEvent> {
    let event = next(channel)?;
    match event.failure() {
        _ if event.kind == due => Ok(event),
        Some(failure) => Err(failure.into()),
        None => Err(format!("{} came while {due} was due", event.kind).into()),
    }
}

/// Waits for the next event. An interruption lets a program look at its flags; this one has none.
fn next(channel: &EventChannel) -> Result<CmEvent> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match channel.next_event(deadline) {
            Err(VerbsError::Interrupted) => {}
            event => return Ok(event?),
        }
    }
}
