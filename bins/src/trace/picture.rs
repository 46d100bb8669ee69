//! Gantt chart of one message: a lane for each copy, and for posted writes if there are any; one bar per copied block, one shade
//! per chunk, one tick per acknowledgement.

use super::timeline::{Bar, JobSpan, MessageTimeline, Timeline};
use core::error::Error;
use superpipe::os::Bytes;
use superpipe_gantt::{
    self as gantt, ACK, COPY_IN, COPY_OUT, Chart, Color, JOB, Lane, Meaning, Shade, WAIT, WIRE, us,
};

/// A picture of one message.
#[derive(Debug, Clone)]
pub struct Picture {
    /// copies and posted writes of the message
    pub timeline: Timeline,
    /// size of the message
    pub bytes: u64,
    /// size of a block
    pub block_bytes: u32,
    /// negotiated protocol
    pub protocol: &'static str,
    /// fabric of the connection
    pub fabric: &'static str,
}

impl Picture {
    /// Draws the chart as the text of an SVG file.
    ///
    /// # Errors
    /// The drawing fails.
    pub fn draw(&self) -> Result<String, Box<dyn Error>> {
        self.chart().draw()
    }

    fn chart(&self) -> Chart {
        let span_ns @ [begin, end] = self.timeline.span();
        let way = if self.timeline.answer.is_some() { " there and back" } else { "" };
        let title = format!(
            "{}{way} by {} over {}, in blocks of {}: {:.1} \u{b5}s",
            Bytes(self.bytes),
            self.protocol,
            self.fabric,
            Bytes(self.block_bytes.into()),
            us(end.saturating_sub(begin))
        );
        let [inward, outward, both] = self.timeline.message.overlap().map(us);
        let subtitle = format!(
            "the client copies in for {inward:.1} \u{b5}s, the server copies out for {outward:.1} \u{b5}s, \
             and for {both:.1} \u{b5}s of that both do"
        );
        let lanes = self.lanes();
        let mut legend = vec![
            Meaning::bar(COPY_IN, "copy in: one bar per copy, one shade per chunk"),
            Meaning::bar(COPY_OUT, "copy out"),
            Meaning::tick(ACK, "acknowledgement written or received"),
        ];
        if lanes.iter().any(|lane| !lane.waits.is_empty()) {
            legend.push(Meaning::bar([WAIT; 2], "wait for free blocks or CTS"));
        }
        if self.timeline.jobs.iter().any(|jobs| !jobs.is_empty()) {
            legend.push(Meaning::bar(JOB, "job: memory is provisioned or registered; is taken back"));
        }
        Chart { title, subtitle, span_ns, lanes, legend }
    }

    fn lanes(&self) -> Vec<Lane> {
        let mut lanes = message_lanes(&self.timeline.message, ["client copy in", "wire", "server copy out"]);
        if let Some(answer) = &self.timeline.answer {
            lanes.extend(message_lanes(answer, ["server copy in", "wire back", "client copy out"]));
        }
        for (name, jobs) in ["client jobs", "server jobs"].into_iter().zip(&self.timeline.jobs) {
            let bar = |job: &JobSpan| gantt::Bar {
                span_ns: job.span_ns,
                color: JOB[usize::from(job.job.takes_back())],
            };
            lanes.extend(Lane::stacked(name, &jobs.iter().map(bar).collect::<Vec<_>>()));
        }
        lanes
    }
}

fn message_lanes(message: &MessageTimeline, [copy_in, wire, copy_out]: [&str; 3]) -> Vec<Lane> {
    let mut lanes = vec![Lane {
        waits: message.waits.clone(),
        ..lane(copy_in, &message.copy_in, COPY_IN, &message.acks_in)
    }];
    if !message.wire.is_empty() {
        lanes.push(lane(wire, &message.wire, WIRE, &[]));
    }
    lanes.push(lane(copy_out, &message.copy_out, COPY_OUT, &message.acks_out));
    lanes
}

/// Returns a lane of bars, whose shade changes with every chunk, and of ticks for acknowledgements.
fn lane(name: &str, bars: &[Bar], shades: [Color; 2], acks: &[u64]) -> Lane {
    let mut shade = Shade::default();
    let bar = |bar: &Bar| gantt::Bar {
        span_ns: [bar.begin_ns, bar.end_ns],
        color: shade.next(bar.sequence, shades),
    };
    let tick = |at_ns: &u64| gantt::Tick { at_ns: *at_ns, color: ACK, place: gantt::Place::Below };
    Lane {
        name: name.to_owned(),
        bars: bars.iter().map(bar).collect(),
        ticks: acks.iter().map(tick).collect(),
        ..Lane::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::mark::Job;

    fn bars(begin_ns: u64, sequences: &[u64]) -> Vec<Bar> {
        let bar = |(index, &sequence): (usize, &u64)| {
            let begin_ns = begin_ns + 1000 * index as u64;
            Bar { begin_ns, end_ns: begin_ns + 1000, sequence }
        };
        sequences.iter().enumerate().map(bar).collect()
    }

    fn message(begin_ns: u64, is_posted: bool) -> MessageTimeline {
        MessageTimeline {
            copy_in: bars(begin_ns, &[1, 2, 2]),
            wire: if is_posted { bars(begin_ns + 1000, &[1, 2]) } else { Vec::new() },
            copy_out: bars(begin_ns + 2000, &[1, 2, 2]),
            waits: vec![[begin_ns + 100, begin_ns + 200]],
            acks_out: vec![begin_ns + 3000, begin_ns + 1_000_000],
            acks_in: vec![begin_ns + 3500],
        }
    }

    fn drawn(message: MessageTimeline, answer: Option<MessageTimeline>) -> String {
        drawn_with(message, answer, Vec::new())
    }

    fn drawn_with(message: MessageTimeline, answer: Option<MessageTimeline>, jobs: Vec<JobSpan>) -> String {
        let timeline = Timeline { message, answer, jobs: [Vec::new(), jobs] };
        let picture =
            Picture { timeline, bytes: 3 << 10, block_bytes: 1 << 10, protocol: "copy", fabric: "shm" };
        picture.draw().unwrap()
    }

    fn count(text: &str, color: Color, element: &str) -> usize {
        let Color(red, green, blue) = color;
        let color = format!("#{red:02X}{green:02X}{blue:02X}");
        text.lines().filter(|line| line.contains(element) && line.contains(&color)).count()
    }

    #[test]
    fn lanes_show_copies_and_posted_writes() {
        let direct = drawn(message(5000, false), None);
        assert!(direct.starts_with("<svg") && direct.trim_end().ends_with("</svg>"));
        assert!(direct.contains("3 KiB by copy over shm, in blocks of 1 KiB: 5.0 \u{b5}s"));
        assert!(direct.contains("for 1.0 \u{b5}s of that both do"));
        for (name, is_there) in
            [("client copy in", true), ("server copy out", true), ("wire", false), ("client copy out", false)]
        {
            assert_eq!(direct.contains(name), is_there, "{name}");
        }
        let both = drawn(message(5000, true), Some(message(12_000, true)));
        for name in ["wire", "wire back", "server copy in", "client copy out", "there and back"] {
            assert!(both.contains(name), "{name}");
        }
    }

    #[test]
    fn jobs_have_a_lane_where_there_are_any() {
        let span = |span_ns, job| JobSpan { span_ns, job };
        let jobs = vec![
            span([5500, 6500], Job::ProvisionLanding),
            span([6000, 7000], Job::ReleaseLanding),
            span([6500, 6600], Job::ReleaseLanding),
        ];
        let text = drawn_with(message(5000, false), None, jobs);
        // the legend has one more of each
        assert_eq!(JOB.map(|color| count(&text, color, "<rect")), [1 + 1, 2 + 1]);
        assert!(text.contains("server jobs") && text.contains("server jobs 2"));
        assert!(!text.contains("client jobs"));
        assert!(!drawn(message(5000, false), None).contains("jobs"));
    }

    #[test]
    fn blocks_chunks_and_acknowledgements_are_drawn() {
        let text = drawn(message(5000, false), None);
        // the legend has one more of each
        assert_eq!(COPY_IN.map(|color| count(&text, color, "<rect")), [1 + 1, 2 + 1]);
        assert_eq!(COPY_OUT.map(|color| count(&text, color, "<rect")), [1 + 1, 2 + 1]);
        assert_eq!(count(&text, WAIT, "<rect"), 1 + 2);
        assert_eq!(count(&text, ACK, "<polyline"), 2, "what is after the last copy is not drawn");
    }
}
