//! Gantt chart of a trace. Each host has lanes for its memory, its CPU and its NIC.

use std::collections::BTreeMap;

use superpipe_core::control_page;
use superpipe_core::recorder::Step;
use superpipe_gantt::{
    ACK, Bar, CONTROL, COPY_IN, COPY_OUT, Chart, Color, FAULT, JOB, Lane, Meaning, POST, Place, Shade, Slant,
    Tick, WAIT, WIRE, us,
};

use crate::nic::{Key, MemoryUse, Op, Trace, TraceEntry, TraceEvent, status};

/// Most hosts of a picture, limited by its height.
const HOSTS_MAX: usize = 8;

/// The trace has more hosts than a picture can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyHosts(pub usize);

impl core::fmt::Display for TooManyHosts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} hosts cannot be drawn, {HOSTS_MAX} can; take a seed or a scenario with fewer", self.0)
    }
}

impl core::error::Error for TooManyHosts {}

impl Trace {
    /// Draws the trace, and returns the text of an SVG file. Time begins when all memory is registered.
    ///
    /// # Errors
    /// [`TooManyHosts`], or the error of the drawing library.
    pub fn draw(&self, title: &str) -> Result<String, Box<dyn core::error::Error>> {
        let count = self.0.iter().map(|entry| entry.host + 1).max().unwrap_or(0);
        if count > HOSTS_MAX {
            return Err(TooManyHosts(count).into());
        }
        let mut painter = Painter { hosts: vec![Host::default(); count], ..Painter::default() };
        self.0.iter().for_each(|entry| painter.add(entry));
        painter.chart(title).draw()
    }
}

/// Lanes of a host, from top to bottom.
#[derive(Clone, Default)]
struct Host {
    visible: Lane,
    cpu: Lane,
    wire: Lane,
    /// Jobs beside the CPU, which may overlap.
    jobs: Vec<Bar>,
    /// Begin of a wait for CTS or credit.
    waits_since: Option<u64>,
    /// Shades by chunk and by WR.
    shades: [Shade; 4],
}

#[derive(Default)]
struct Painter {
    hosts: Vec<Host>,
    uses: BTreeMap<Key, MemoryUse>,
    /// Targets of WRs.
    targets: BTreeMap<u64, (Key, u32)>,
    begin_ns: Option<u64>,
    end_ns: u64,
    /// Total times of copies in, packets, and copies out.
    sums_ns: [u64; 3],
}

impl Painter {
    fn add(&mut self, entry: &TraceEntry) {
        let TraceEntry { at_ns, host, event } = *entry;
        if let TraceEvent::Register { key, memory_use, .. } = event {
            self.uses.insert(key, memory_use);
            return;
        }
        let begin_ns = if let TraceEvent::Core { begin_ns, .. } = event { begin_ns } else { at_ns };
        self.begin_ns = Some(self.begin_ns.map_or(begin_ns, |first| first.min(begin_ns)));
        self.end_ns = self.end_ns.max(at_ns);
        match event {
            TraceEvent::Register { .. } | TraceEvent::Deregister { .. } => {}
            TraceEvent::Post { wr, op, .. } => {
                if let Op::Write { to, at } | Op::WriteWithImmediate { to, at, .. } = op {
                    self.targets.insert(wr, (to, at));
                }
                tick(&mut self.hosts[host].cpu, at_ns, POST, Place::Below);
            }
            TraceEvent::Leave { wr, left_ns, arrives_ns, .. } => {
                self.leave(host, wr, [at_ns, left_ns, arrives_ns])
            }
            TraceEvent::Visible { wr, to, at, .. } => {
                let color = self.line_color(to, at);
                let here = &mut self.hosts[host];
                let color = color.unwrap_or_else(|| here.shades[3].next(wr, WIRE));
                tick(&mut here.visible, at_ns, color, Place::Among);
            }
            TraceEvent::Core { begin_ns, step, .. } => self.step(host, [begin_ns, at_ns], &step),
            TraceEvent::Stall { ns } => {
                let span_ns = [at_ns - ns, at_ns];
                self.hosts[host].cpu.bars.push(Bar { span_ns, color: FAULT });
            }
            TraceEvent::Complete { status: status::SUCCESS, is_lost: false, .. }
            | TraceEvent::Receive { .. } => {}
            TraceEvent::Refused(_)
            | TraceEvent::Complete { .. }
            | TraceEvent::Failed { .. }
            | TraceEvent::Killed { .. }
            | TraceEvent::Vanished { .. }
            | TraceEvent::Forge { .. } => tick(&mut self.hosts[host].cpu, at_ns, FAULT, Place::Across),
        }
    }

    /// Returns the color of an acknowledgement or control message, or `None` for payload.
    fn line_color(&self, to: Key, at: u32) -> Option<Color> {
        let is_control_page = self.uses.get(&to) == Some(&MemoryUse::ControlPage);
        is_control_page.then_some(if at < control_page::MAILBOX { ACK } else { CONTROL })
    }

    fn leave(&mut self, host: usize, wr: u64, [at_ns, left_ns, arrived_ns]: [u64; 3]) {
        let color = self.targets.get(&wr).and_then(|(to, at)| self.line_color(*to, *at));
        let here = &mut self.hosts[host];
        let color = color.unwrap_or_else(|| here.shades[2].next(wr, WIRE));
        let wire_ns = left_ns - at_ns;
        let arrives_ns = [arrived_ns.saturating_sub(wire_ns), arrived_ns];
        here.wire.slants.push(Slant { leaves_ns: [at_ns, left_ns], arrives_ns, color });
        self.sums_ns[1] += wire_ns;
        self.end_ns = self.end_ns.max(arrived_ns);
    }

    fn step(&mut self, host: usize, span_ns @ [begin_ns, end_ns]: [u64; 2], step: &Step) {
        let Host { cpu, jobs, waits_since, shades, .. } = &mut self.hosts[host];
        match *step {
            Step::NoCredit { .. } | Step::NoCts { .. } => {
                waits_since.get_or_insert(begin_ns);
            }
            Step::CopyIn { sequence, .. } => {
                cpu.bars.push(Bar { span_ns, color: shades[0].next(sequence, COPY_IN) });
                self.sums_ns[0] += end_ns - begin_ns;
                cpu.waits.extend(waits_since.take().map(|since| [since, begin_ns]));
            }
            Step::CopyOut { sequence, .. } => {
                cpu.bars.push(Bar { span_ns, color: shades[1].next(sequence, COPY_OUT) });
                self.sums_ns[2] += end_ns - begin_ns;
            }
            Step::AckOut { .. } | Step::AckIn { .. } => tick(cpu, end_ns, ACK, Place::Below),
            Step::ControlOut(_) | Step::ControlIn(_) => tick(cpu, end_ns, CONTROL, Place::Below),
            Step::JobEnd { job, .. } => {
                jobs.push(Bar { span_ns, color: JOB[usize::from(job.takes_back())] });
            }
            Step::Failed(_) => tick(cpu, end_ns, FAULT, Place::Across),
            Step::SendBegin { .. }
            | Step::SendEnd { .. }
            | Step::ReceiveBegin { .. }
            | Step::ReceiveEnd { .. }
            | Step::Post { .. }
            | Step::Complete { .. }
            | Step::LineOut { .. }
            | Step::LineIn { .. }
            | Step::Compared { .. }
            | Step::KernelChosen(_)
            | Step::WindowChosen { .. }
            | Step::Planned { .. }
            | Step::JobBegin { .. } => {}
        }
    }

    fn chart(self, title: &str) -> Chart {
        let span_ns = [self.begin_ns.unwrap_or_default(), self.end_ns];
        let [copy_in, wire, copy_out] = self.sums_ns.map(us);
        let took = us(span_ns[1].saturating_sub(span_ns[0]));
        let title = format!("{title}: {took:.1} \u{b5}s of virtual time");
        let subtitle = format!(
            "copying in takes {copy_in:.1} \u{b5}s, packets occupy the wire for {wire:.1} \u{b5}s, copying out takes {copy_out:.1} \u{b5}s"
        );
        let has_jobs = self.hosts.iter().any(|host| !host.jobs.is_empty());
        let mut lanes = Vec::new();
        for (number, host) in self.hosts.into_iter().enumerate() {
            let named = [("memory", host.visible), ("CPU", host.cpu), ("NIC", host.wire)];
            lanes.extend(named.map(|(what, lane)| Lane { name: format!("host {number} {what}"), ..lane }));
            lanes.extend(Lane::stacked(&format!("host {number} jobs"), &host.jobs));
        }
        let is_empty = |lane: &Lane| {
            lane.waits.is_empty() && lane.bars.is_empty() && lane.slants.is_empty() && lane.ticks.is_empty()
        };
        lanes.retain(|lane| !is_empty(lane));
        Chart { title, subtitle, span_ns, lanes, legend: legend(has_jobs) }
    }
}

fn tick(lane: &mut Lane, at_ns: u64, color: Color, place: Place) {
    lane.ticks.push(Tick { at_ns, color, place });
}

fn legend(has_jobs: bool) -> Vec<Meaning> {
    let mut legend = vec![
        Meaning::bar(COPY_IN, "copy in: one bar per copy, one shade per chunk"),
        Meaning::bar(COPY_OUT, "copy out"),
        Meaning::bar(WIRE, "packets from departure (top) to arrival (bottom), one shade per WR"),
        Meaning::tick(WIRE[0], "bytes become visible"),
        Meaning::bar([WAIT; 2], "wait for credit or CTS"),
        Meaning::tick(POST, "WR posted"),
        Meaning::tick(ACK, "acknowledgement"),
        Meaning::tick(CONTROL, "control message"),
        Meaning::tick(FAULT, "fault"),
    ];
    if has_jobs {
        legend.push(Meaning::bar(JOB, "job: memory is provisioned or registered; is taken back"));
    }
    legend
}
