//! A message's way as a Gantt chart: a lane for each copy, and for the wire where there is one; a bar for each block that is
//! copied, a shade for each chunk, a tick for each acknowledgement.

use super::journey::{Bar, Journey, Leg};
use core::error::Error;
use superpipe::os::Bytes;
use superpipe_gantt::{
    self as gantt, ACK, COPY_IN, COPY_OUT, Chart, Color, Lane, Meaning, Shade, WAIT, WIRE, us,
};

/// A picture of one message.
#[derive(Debug, Clone)]
pub struct Picture {
    /// the message's copies, and its chunks on the wire
    pub journey: Journey,
    /// its bytes
    pub bytes: u64,
    /// bytes of a block
    pub block_bytes: u32,
    /// the protocol by which it crossed
    pub protocol: &'static str,
    /// the fabric that it crossed
    pub fabric: &'static str,
}

impl Picture {
    /// Draws it, as the text of an SVG file.
    ///
    /// # Errors
    /// When the drawing fails.
    pub fn draw(&self) -> Result<String, Box<dyn Error>> {
        self.chart().draw()
    }

    fn chart(&self) -> Chart {
        let span_ns @ [begin, end] = self.journey.span();
        let way = if self.journey.back.is_some() { " there and back" } else { "" };
        let title = format!(
            "{}{way} by {} over {}, in blocks of {}: {:.1} \u{b5}s",
            Bytes(self.bytes),
            self.protocol,
            self.fabric,
            Bytes(self.block_bytes.into()),
            us(end.saturating_sub(begin))
        );
        let [inward, outward, both] = self.journey.there.overlap().map(us);
        let subtitle = format!(
            "the client copies in for {inward:.1} \u{b5}s, the server copies out for {outward:.1} \u{b5}s, \
             and for {both:.1} \u{b5}s of that both do"
        );
        let lanes = self.lanes();
        let mut legend = vec![
            Meaning::bar(COPY_IN, "copy in, a bar a block, a shade a chunk"),
            Meaning::bar(COPY_OUT, "copy out"),
            Meaning::tick(ACK, "acknowledgement written, and seen"),
        ];
        if lanes.iter().any(|lane| !lane.waits.is_empty()) {
            legend.push(Meaning::bar([WAIT; 2], "wait for free blocks or CTS"));
        }
        Chart { title, subtitle, span_ns, lanes, legend }
    }

    fn lanes(&self) -> Vec<Lane> {
        let mut lanes = leg_lanes(&self.journey.there, ["client copy in", "wire", "server copy out"]);
        if let Some(back) = &self.journey.back {
            lanes.extend(leg_lanes(back, ["server copy in", "wire back", "client copy out"]));
        }
        lanes
    }
}

fn leg_lanes(leg: &Leg, [copy_in, wire, copy_out]: [&str; 3]) -> Vec<Lane> {
    let mut lanes =
        vec![Lane { waits: leg.waits.clone(), ..lane(copy_in, &leg.copy_in, COPY_IN, &leg.acks_in) }];
    if !leg.wire.is_empty() {
        lanes.push(lane(wire, &leg.wire, WIRE, &[]));
    }
    lanes.push(lane(copy_out, &leg.copy_out, COPY_OUT, &leg.acks_out));
    lanes
}

/// Bars whose shade changes from chunk to chunk, and acknowledgements.
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

    fn bars(begin_ns: u64, sequences: &[u64]) -> Vec<Bar> {
        let bar = |(index, &sequence): (usize, &u64)| {
            let begin_ns = begin_ns + 1000 * index as u64;
            Bar { begin_ns, end_ns: begin_ns + 1000, sequence }
        };
        sequences.iter().enumerate().map(bar).collect()
    }

    fn leg(begin_ns: u64, is_posted: bool) -> Leg {
        Leg {
            copy_in: bars(begin_ns, &[1, 2, 2]),
            wire: if is_posted { bars(begin_ns + 1000, &[1, 2]) } else { Vec::new() },
            copy_out: bars(begin_ns + 2000, &[1, 2, 2]),
            waits: vec![[begin_ns + 100, begin_ns + 200]],
            acks_out: vec![begin_ns + 3000, begin_ns + 1_000_000],
            acks_in: vec![begin_ns + 3500],
        }
    }

    fn drawn(there: Leg, back: Option<Leg>) -> String {
        let journey = Journey { there, back };
        let picture =
            Picture { journey, bytes: 3 << 10, block_bytes: 1 << 10, protocol: "copy", fabric: "shm" };
        picture.draw().unwrap()
    }

    fn count(text: &str, color: Color, element: &str) -> usize {
        let Color(red, green, blue) = color;
        let color = format!("#{red:02X}{green:02X}{blue:02X}");
        text.lines().filter(|line| line.contains(element) && line.contains(&color)).count()
    }

    #[test]
    fn a_lane_for_each_copy_and_for_what_is_posted() {
        let direct = drawn(leg(5000, false), None);
        assert!(direct.starts_with("<svg") && direct.trim_end().ends_with("</svg>"));
        assert!(direct.contains("3 KiB by copy over shm, in blocks of 1 KiB: 5.0 \u{b5}s"));
        assert!(direct.contains("for 1.0 \u{b5}s of that both do"));
        for (name, is_there) in
            [("client copy in", true), ("server copy out", true), ("wire", false), ("client copy out", false)]
        {
            assert_eq!(direct.contains(name), is_there, "{name}");
        }
        let both = drawn(leg(5000, true), Some(leg(12_000, true)));
        for name in ["wire", "wire back", "server copy in", "client copy out", "there and back"] {
            assert!(both.contains(name), "{name}");
        }
    }

    #[test]
    fn a_bar_a_block_a_shade_a_chunk_and_a_tick_an_acknowledgement() {
        let text = drawn(leg(5000, false), None);
        // one of each more in the legend
        assert_eq!(COPY_IN.map(|color| count(&text, color, "<rect")), [1 + 1, 2 + 1]);
        assert_eq!(COPY_OUT.map(|color| count(&text, color, "<rect")), [1 + 1, 2 + 1]);
        assert_eq!(count(&text, WAIT, "<rect"), 1 + 2);
        assert_eq!(count(&text, ACK, "<polyline"), 2, "what is after the last copy is not drawn");
    }
}
