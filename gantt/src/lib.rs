//! Gantt charts of recorded events, as SVG. A lane stands for a CPU, a NIC or a memory, a bar for what takes time, and a tick for
//! what takes none. All share one time axis.
//!
//! rperf draws real runs and superpipe-sim draws virtual runs with this crate, so that a color means the same in both. Times are
//! nanoseconds. Everything outside the span is cut off.
#![forbid(unsafe_code)]

mod draw;

pub use plotters::style::RGBColor as Color;

/// Color of acknowledgements.
pub const ACK: Color = Color(196, 38, 70);
/// Color of control messages.
pub const CONTROL: Color = Color(130, 60, 170);
/// Color of faults.
pub const FAULT: Color = Color(236, 120, 0);
/// Colors of jobs that provision or register memory, and of those that take it back.
pub const JOB: [Color; 2] = [Color(150, 96, 28), Color(212, 170, 104)];
/// Color of posted work requests.
pub const POST: Color = Color(120, 126, 136);
/// Color of waits.
pub const WAIT: Color = Color(226, 228, 232);
/// Shades of copies into blocks. Chunks take them in turn.
pub const COPY_IN: [Color; 2] = [Color(31, 108, 176), Color(112, 170, 222)];
/// Shades of writes on the wire.
pub const WIRE: [Color; 2] = [Color(110, 114, 122), Color(168, 172, 180)];
/// Shades of copies out of blocks.
pub const COPY_OUT: [Color; 2] = [Color(12, 130, 100), Color(96, 190, 160)];

/// A Gantt chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Text of the first line.
    pub title: String,
    /// Smaller line below the title.
    pub subtitle: String,
    /// Begin and end of the time axis.
    pub span_ns: [u64; 2],
    /// Lanes from top to bottom.
    pub lanes: Vec<Lane>,
    /// Legend of the colors.
    pub legend: Vec<Meaning>,
}

/// A row of the chart.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// Name at the left.
    pub name: String,
    /// Waits, drawn behind everything else.
    pub waits: Vec<[u64; 2]>,
    /// Bars, which do not overlap.
    pub bars: Vec<Bar>,
    /// Slanted bars.
    pub slants: Vec<Slant>,
    /// Ticks, drawn in front of everything else.
    pub ticks: Vec<Tick>,
}

/// An activity with a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Begin and end.
    pub span_ns: [u64; 2],
    /// Color of the rectangle.
    pub color: Color,
}

impl Lane {
    /// Returns lanes for bars that may overlap: each bar in the first lane that is free at its begin. The first lane has this name, the
    /// others are numbered from 2. Returns none if there are no bars.
    #[must_use]
    pub fn stacked(name: &str, bars: &[Bar]) -> Vec<Self> {
        let mut bars = bars.to_vec();
        bars.sort_by_key(|bar| bar.span_ns);
        let mut lanes: Vec<Self> = Vec::new();
        for bar in bars {
            let is_free = |lane: &Self| lane.bars.last().is_none_or(|last| last.span_ns[1] <= bar.span_ns[0]);
            let index = lanes.iter().position(is_free).unwrap_or_else(|| {
                let number = lanes.len() + 1;
                let name = if number == 1 { name.to_owned() } else { format!("{name} {number}") };
                lanes.push(Self { name, ..Self::default() });
                number - 1
            });
            lanes[index].bars.push(bar);
        }
        lanes
    }
}

/// A transfer from the top of a lane, where it leaves, to the bottom, where it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slant {
    /// Begin and end of leaving.
    pub leaves_ns: [u64; 2],
    /// Begin and end of arriving.
    pub arrives_ns: [u64; 2],
    /// Color of the parallelogram.
    pub color: Color,
}

/// An event without a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Time of the event.
    pub at_ns: u64,
    /// Color of the line.
    pub color: Color,
    /// Vertical position in the lane.
    pub place: Place,
}

/// Vertical position of a tick in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Below the bars.
    Below,
    /// At the height of the bars.
    Among,
    /// From the top of the lane to its bottom.
    Across,
}

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// Both shades, or one color twice.
    pub colors: [Color; 2],
    /// The sample is a tick instead of a bar.
    pub is_tick: bool,
    /// Text beside the sample.
    pub text: String,
}

impl Meaning {
    /// Returns the entry of a bar in two shades.
    #[must_use]
    pub fn bar(colors: [Color; 2], text: &str) -> Self {
        Self { colors, is_tick: false, text: text.to_owned() }
    }

    /// Returns the entry of a tick.
    #[must_use]
    pub fn tick(color: Color, text: &str) -> Self {
        Self { colors: [color; 2], is_tick: true, text: text.to_owned() }
    }
}

/// Chooses a shade, which changes whenever the group changes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shade {
    last: Option<u64>,
    turn: usize,
}

impl Shade {
    /// Returns the shade of the next item, which belongs to `group`.
    pub fn next(&mut self, group: u64, shades: [Color; 2]) -> Color {
        if self.last.replace(group).is_some_and(|last| last != group) {
            self.turn = 1 - self.turn;
        }
        shades[self.turn]
    }
}

/// Converts nanoseconds to microseconds.
#[expect(clippy::cast_precision_loss, reason = "for people")]
#[must_use]
pub const fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(lane: Lane) -> String {
        let chart = Chart { span_ns: [1000, 2000], lanes: vec![lane], ..Chart::default() };
        chart.draw().unwrap()
    }

    fn count(text: &str, Color(red, green, blue): Color) -> usize {
        let color = format!("#{red:02X}{green:02X}{blue:02X}");
        text.lines().filter(|line| line.contains(&color)).count()
    }

    #[test]
    fn nothing_outside_of_the_span_is_drawn() {
        let bar = |span_ns| Bar { span_ns, color: COPY_IN[0] };
        let tick = |at_ns| Tick { at_ns, color: ACK, place: Place::Below };
        let text = drawn(Lane {
            bars: [[0, 900], [900, 1100], [1200, 1200], [1900, 2100], [2100, 2200]].map(bar).to_vec(),
            ticks: [999, 1000, 2000, 2001].map(tick).to_vec(),
            ..Lane::default()
        });
        assert_eq!(count(&text, COPY_IN[0]), 3);
        assert_eq!(count(&text, ACK), 2);
    }

    #[test]
    fn a_short_bar_is_a_pixel_wide() {
        let bar = Bar { span_ns: [1500, 1500], color: COPY_OUT[0] };
        let text = drawn(Lane { bars: vec![bar], ..Lane::default() });
        let line = text.lines().find(|line| line.contains("#0C8264")).unwrap();
        assert!(line.contains("width=\"1\""), "{line}");
    }

    #[test]
    fn bars_that_overlap_are_stacked() {
        let bar = |span_ns| Bar { span_ns, color: JOB[0] };
        let lanes = Lane::stacked("jobs", &[[30, 50], [10, 40], [20, 30], [40, 60]].map(bar));
        let spans = |lane: &Lane| lane.bars.iter().map(|bar| bar.span_ns).collect::<Vec<_>>();
        let all: Vec<_> = lanes.iter().map(|lane| (lane.name.as_str(), spans(lane))).collect();
        assert_eq!(all, [("jobs", vec![[10, 40], [40, 60]]), ("jobs 2", vec![[20, 30], [30, 50]])]);
        assert!(Lane::stacked("jobs", &[]).is_empty());
    }

    #[test]
    fn the_shade_changes_from_group_to_group() {
        let mut shade = Shade::default();
        let shades = [7, 7, 9, 8, 8].map(|group| shade.next(group, WIRE));
        assert_eq!(shades, [0, 0, 1, 0, 0].map(|index: usize| WIRE[index]));
    }
}
