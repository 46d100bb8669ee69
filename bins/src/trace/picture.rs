//! A message's way as a Gantt chart: a lane for each copy, and for the wire where there is one; a bar for each block that is
//! copied, a shade for each chunk, a tick for each acknowledgement.

use super::journey::{Bar, Journey, Leg};
use core::error::Error;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use superpipe::os::Bytes;

const WIDTH: u32 = 1200;
const LANE_HEIGHT: u32 = 74;
/// Room above and below the lanes.
const HEAD: u32 = 84;
const FOOT: u32 = 92;
/// Room for the names of the lanes.
const NAMES: u32 = 150;
/// What of a lane its bars take, from its bottom.
const BARS: [f64; 2] = [0.26, 0.92];
/// And the ticks below them.
const TICKS: [f64; 2] = [0.06, 0.21];

const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(120, 126, 136);
const ACK: RGBColor = RGBColor(196, 38, 70);
const WAIT: RGBColor = RGBColor(226, 228, 232);
/// Two shades, by turns, for each kind of lane.
const COPY_IN: [RGBColor; 2] = [RGBColor(31, 108, 176), RGBColor(112, 170, 222)];
const WIRE: [RGBColor; 2] = [RGBColor(110, 114, 122), RGBColor(168, 172, 180)];
const COPY_OUT: [RGBColor; 2] = [RGBColor(12, 130, 100), RGBColor(96, 190, 160)];

/// What is drawn.
#[derive(Debug, Clone)]
pub struct Picture {
    /// the message's way
    pub journey: Journey,
    /// its bytes
    pub bytes: u64,
    /// of a block
    pub block_bytes: u32,
    /// how it crossed
    pub protocol: &'static str,
    /// and what
    pub fabric: &'static str,
}

/// A lane.
struct Lane<'a> {
    name: &'static str,
    bars: &'a [Bar],
    shades: [RGBColor; 2],
    ticks: &'a [u64],
    waits: &'a [[u64; 2]],
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Picture {
    /// Draws it, as the text of an SVG file.
    ///
    /// # Errors
    /// When the drawing fails.
    pub fn draw(&self) -> Result<String, Box<dyn Error>> {
        let lanes = self.lanes();
        let count = u32::try_from(lanes.len()).unwrap_or(u32::MAX);
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, (WIDTH, HEAD + count * LANE_HEIGHT + FOOT));
            let area = area.into_drawing_area();
            area.fill(&WHITE)?;
            self.draw_head(&area)?;
            let (_, below) = area.split_vertically(HEAD);
            let (middle, foot) = below.split_vertically(count * LANE_HEIGHT + FOOT - 36);
            self.draw_lanes(&middle, &lanes)?;
            draw_legend(&foot, lanes.iter().any(|lane| !lane.waits.is_empty()))?;
            area.present()?;
        }
        Ok(text)
    }

    fn lanes(&self) -> Vec<Lane<'_>> {
        let mut lanes = leg_lanes(&self.journey.there, ["client copy in", "wire", "server copy out"]);
        if let Some(back) = &self.journey.back {
            lanes.extend(leg_lanes(back, ["server copy in", "wire back", "client copy out"]));
        }
        lanes
    }

    fn draw_head(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let [begin, end] = self.journey.span();
        let way = if self.journey.back.is_some() { " there and back" } else { "" };
        let title = format!(
            "{}{way} by {} over {}, in blocks of {}: {:.1} \u{b5}s",
            Bytes(self.bytes),
            self.protocol,
            self.fabric,
            Bytes(self.block_bytes.into()),
            us(end.saturating_sub(begin))
        );
        area.draw(&Text::new(title, (24, 20), ("sans-serif", 22).into_font().color(&INK)))?;
        let [inward, outward, both] = self.journey.there.overlap().map(us);
        let said = format!(
            "the client copies in for {inward:.1} \u{b5}s, the server copies out for {outward:.1} \u{b5}s, \
             and for {both:.1} \u{b5}s of that both do"
        );
        area.draw(&Text::new(said, (24, 50), ("sans-serif", 15).into_font().color(&FAINT)))?;
        Ok(())
    }

    fn draw_lanes(&self, area: &Area<'_>, lanes: &[Lane<'_>]) -> Result<(), Box<dyn Error>> {
        let [begin, end] = self.journey.span();
        let width = us(end.saturating_sub(begin)).max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "six lanes at most")]
        let height = lanes.len() as f64;
        let decimals = if width < 1.0 { 2 } else { usize::from(width < 10.0) };
        let mut chart = ChartBuilder::on(area)
            .margin_left(NAMES)
            .margin_right(28)
            .x_label_area_size(46)
            .build_cartesian_2d(-width * 0.01..width * 1.01, 0.0..height)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.10))
            .axis_style(BLACK.mix(0.35))
            .x_labels(12)
            .x_label_formatter(&|us| format!("{us:.decimals$}"))
            .x_label_style(("sans-serif", 14).into_font().color(&FAINT))
            .x_desc("\u{b5}s")
            .axis_desc_style(("sans-serif", 14).into_font().color(&FAINT))
            .draw()?;
        let at = |ns: u64| us(ns.saturating_sub(begin)).min(width);
        let mut floor = height;
        for lane in lanes {
            floor -= 1.0;
            let (low, high) = (floor + BARS[0], floor + BARS[1]);
            let line = [(-width * 0.01, floor), (width * 1.01, floor)];
            chart.draw_series([PathElement::new(line, BLACK.mix(0.12))])?;
            let waits = lane.waits.iter().filter(|[_, until]| *until > begin);
            chart.draw_series(waits.map(|[from, until]| {
                Rectangle::new([(at(*from), low), (at(*until), high)], WAIT.filled())
            }))?;
            let shaded = shaded(lane.bars, lane.shades);
            chart.draw_series(shaded.map(|(bar, color)| {
                Rectangle::new([(at(bar.begin_ns), low), (at(bar.end_ns), high)], color.filled())
            }))?;
            // a hairline between neighbours, which may touch
            chart.draw_series(lane.bars.iter().skip(1).map(|bar| {
                PathElement::new([(at(bar.begin_ns), low), (at(bar.begin_ns), high)], WHITE.stroke_width(1))
            }))?;
            let (low, high) = (floor + TICKS[0], floor + TICKS[1]);
            let ticks = lane.ticks.iter().filter(|&&tick| (begin..=end).contains(&tick));
            chart.draw_series(
                ticks.map(|&tick| PathElement::new([(at(tick), low), (at(tick), high)], ACK.stroke_width(2))),
            )?;
            let (_, y) = chart.backend_coord(&(0.0, floor + f64::midpoint(BARS[0], BARS[1])));
            let (_, top) = area.get_base_pixel();
            let style = ("sans-serif", 16).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(lane.name, (i32::try_from(NAMES).unwrap_or(0) - 10, y - top), style))?;
        }
        Ok(())
    }
}

fn leg_lanes<'a>(leg: &'a Leg, [copy_in, wire, copy_out]: [&'static str; 3]) -> Vec<Lane<'a>> {
    let mut lanes = vec![Lane {
        name: copy_in,
        bars: &leg.copy_in,
        shades: COPY_IN,
        ticks: &leg.acks_in,
        waits: &leg.waits,
    }];
    if !leg.wire.is_empty() {
        lanes.push(Lane { name: wire, bars: &leg.wire, shades: WIRE, ticks: &[], waits: &[] });
    }
    lanes.push(Lane {
        name: copy_out,
        bars: &leg.copy_out,
        shades: COPY_OUT,
        ticks: &leg.acks_out,
        waits: &[],
    });
    lanes
}

/// Each bar with its color, which changes from chunk to chunk.
fn shaded(bars: &[Bar], shades: [RGBColor; 2]) -> impl Iterator<Item = (&Bar, RGBColor)> {
    let (mut last, mut turn) = (None, 1);
    bars.iter().map(move |bar| {
        if last.replace(bar.sequence) != Some(bar.sequence) {
            turn = 1 - turn;
        }
        (bar, shades[turn])
    })
}

/// What the colors mean.
fn draw_legend(area: &Area<'_>, with_waits: bool) -> Result<(), Box<dyn Error>> {
    let mut x = i32::try_from(NAMES).unwrap_or(0);
    let mut entry = |colors: [RGBColor; 2], text: &str, width: i32| -> Result<(), Box<dyn Error>> {
        let half = width / 2;
        area.draw(&Rectangle::new([(x, 8), (x + half, 20)], colors[0].filled()))?;
        area.draw(&Rectangle::new([(x + half, 8), (x + width, 20)], colors[1].filled()))?;
        let style = ("sans-serif", 14).into_font().color(&FAINT);
        area.draw(&Text::new(text.to_owned(), (x + width + 8, 6), style))?;
        x += width + 30 + i32::try_from(text.len()).unwrap_or(0) * 7;
        Ok(())
    };
    entry(COPY_IN, "copy in, a bar a block, a shade a chunk", 24)?;
    entry(COPY_OUT, "copy out", 24)?;
    entry([ACK; 2], "acknowledgement written, and seen", 3)?;
    if with_waits {
        entry([WAIT; 2], "wait for free blocks or CTS", 24)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
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

    fn count(text: &str, color: RGBColor, element: &str) -> usize {
        let RGBColor(red, green, blue) = color;
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
