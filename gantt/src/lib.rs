//! Gantt charts of what was recorded, as SVG: a lane for whoever does something, a bar for what takes time, a tick for what
//! does not, all over one axis of time.
//!
//! Pictures of real runs (rperf) and of virtual ones (superpipe-sim) are drawn here, so that a color means the same in both.
//! Times are nanoseconds; what lies outside the span is cut off.
#![forbid(unsafe_code)]

mod draw;

pub use plotters::style::RGBColor as Color;

/// An acknowledgement.
pub const ACK: Color = Color(196, 38, 70);
/// A control message.
pub const CONTROL: Color = Color(130, 60, 170);
/// Something went wrong.
pub const FAULT: Color = Color(236, 120, 0);
/// Work was handed to the device.
pub const POST: Color = Color(120, 126, 136);
/// Somebody waits.
pub const WAIT: Color = Color(226, 228, 232);
/// Payload is put into blocks. Two shades, by turns, of this and of the following.
pub const COPY_IN: [Color; 2] = [Color(31, 108, 176), Color(112, 170, 222)];
/// A write is under way.
pub const WIRE: [Color; 2] = [Color(110, 114, 122), Color(168, 172, 180)];
/// Payload is taken out of blocks.
pub const COPY_OUT: [Color; 2] = [Color(12, 130, 100), Color(96, 190, 160)];

/// What is drawn.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What is to be seen in it, smaller.
    pub subtitle: String,
    /// Its begin and its end.
    pub span_ns: [u64; 2],
    /// From top to bottom.
    pub lanes: Vec<Lane>,
    /// What the colors mean.
    pub legend: Vec<Meaning>,
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// Whose it is.
    pub name: String,
    /// Behind all else.
    pub waits: Vec<[u64; 2]>,
    /// One after the other.
    pub bars: Vec<Bar>,
    /// Next to each other.
    pub slants: Vec<Slant>,
    /// In front of all else.
    pub ticks: Vec<Tick>,
}

/// Something that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Its begin and its end.
    pub span_ns: [u64; 2],
    /// What it is.
    pub color: Color,
}

/// Something that goes from one place, which is above, to another, which is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slant {
    /// It leaves from then until then.
    pub leaves_ns: [u64; 2],
    /// It arrives from then until then.
    pub arrives_ns: [u64; 2],
    /// What it is.
    pub color: Color,
}

/// Something that takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// When it is.
    pub at_ns: u64,
    /// What it is.
    pub color: Color,
    /// Where it is.
    pub place: Place,
}

/// Where in its lane a tick is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Below the bars.
    Below,
    /// Where the bars are.
    Among,
    /// From the top of the lane to its bottom.
    Across,
}

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// Both shades; twice the same, where there is one.
    pub colors: [Color; 2],
    /// Of a tick, not of a bar.
    pub is_tick: bool,
    /// What it means.
    pub text: String,
}

impl Meaning {
    /// Of a bar in two shades.
    #[must_use]
    pub fn bar(colors: [Color; 2], text: &str) -> Self {
        Self { colors, is_tick: false, text: text.to_owned() }
    }

    /// Of a tick.
    #[must_use]
    pub fn tick(color: Color, text: &str) -> Self {
        Self { colors: [color; 2], is_tick: true, text: text.to_owned() }
    }
}

/// The shade for one after the other: it changes from group to group.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shade {
    last: Option<u64>,
    turn: usize,
}

impl Shade {
    /// That of the next one, which belongs to this group.
    pub fn next(&mut self, group: u64, shades: [Color; 2]) -> Color {
        if self.last.replace(group).is_some_and(|last| last != group) {
            self.turn = 1 - self.turn;
        }
        shades[self.turn]
    }
}

/// Nanoseconds in microseconds.
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
    fn what_is_outside_of_the_span_is_not_drawn() {
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
    fn what_is_short_has_a_width() {
        let bar = Bar { span_ns: [1500, 1500], color: COPY_OUT[0] };
        let text = drawn(Lane { bars: vec![bar], ..Lane::default() });
        let line = text.lines().find(|line| line.contains("#0C8264")).unwrap();
        assert!(line.contains("width=\"1\""), "{line}");
    }

    #[test]
    fn the_shade_changes_from_group_to_group() {
        let mut shade = Shade::default();
        let shades = [7, 7, 9, 8, 8].map(|group| shade.next(group, WIRE));
        assert_eq!(shades, [0, 0, 1, 0, 0].map(|index: usize| WIRE[index]));
    }
}
