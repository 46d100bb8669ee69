//! Drawing.

use core::error::Error;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::{Bar, Chart, Lane, Meaning, Place, WAIT, us};

const WIDTH: u32 = 1200;
const LANE_HEIGHT: u32 = 74;
/// Height above and below the lanes.
const HEAD: u32 = 90;
const AXIS: u32 = 64;
/// Height of a line of the legend.
const LEGEND_LINE: u32 = 27;
/// Width of the lane names.
const NAMES: i32 = 160;
/// Left edge of the legend.
const LEGEND_LEFT: i32 = 24;
/// Share of a lane's height that its bars take, from its bottom.
const BARS: [f64; 2] = [0.26, 0.92];
/// Share of a lane's height that the ticks below the bars take.
const TICKS: [f64; 2] = [0.06, 0.21];

/// Hairlines that fill a lane side by side. Each is one pixel wide.
const HAIRS: f64 = 1000.0;

const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(120, 126, 136);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Time axis.
#[derive(Clone, Copy)]
struct Axis {
    begin_ns: u64,
    width_us: f64,
}

impl Axis {
    const fn at(self, ns: u64) -> f64 {
        us(ns.saturating_sub(self.begin_ns)).min(self.width_us)
    }

    /// Returns the ends of a bar, which is drawn at least a pixel wide.
    fn bar(self, bar: &Bar) -> [f64; 2] {
        let [from, until] = bar.span_ns.map(|ns| self.at(ns));
        [from, until.max(from + self.width_us / HAIRS)]
    }

    /// Returns the width in hairlines.
    fn hairs(self, width_us: f64) -> f64 {
        width_us * HAIRS / self.width_us
    }

    const fn is_inside(self, ns: u64) -> bool {
        self.begin_ns <= ns && us(ns - self.begin_ns) <= self.width_us
    }
}

impl Chart {
    /// Draws the chart, and returns the text of an SVG file.
    ///
    /// # Errors
    /// The error of the drawing library.
    pub fn draw(&self) -> Result<String, Box<dyn Error>> {
        let count = u32::try_from(self.lanes.len())?;
        let lines = arranged(&self.legend);
        let legend = LEGEND_LINE * u32::try_from(lines.len())? + 14;
        let mut text = String::new();
        {
            let size = (WIDTH, HEAD + count * LANE_HEIGHT + AXIS + legend);
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            area.fill(&WHITE)?;
            let title = ("sans-serif", 27).into_font().color(&INK);
            area.draw(&Text::new(self.title.as_str(), (24, 20), title))?;
            let subtitle = ("sans-serif", 20).into_font().color(&FAINT);
            area.draw(&Text::new(self.subtitle.as_str(), (24, 52), subtitle))?;
            let (_, below) = area.split_vertically(HEAD);
            let (middle, foot) = below.split_vertically(count * LANE_HEIGHT + AXIS);
            self.draw_lanes(&middle)?;
            draw_legend(&foot, &lines)?;
            area.present()?;
        }
        Ok(text)
    }

    fn draw_lanes(&self, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
        let [begin_ns, end_ns] = self.span_ns;
        let width = us(end_ns.saturating_sub(begin_ns)).max(0.001);
        let axis = Axis { begin_ns, width_us: width };
        #[expect(clippy::cast_precision_loss, reason = "few lanes")]
        let height = self.lanes.len() as f64;
        let decimals = if width < 1.0 { 2 } else { usize::from(width < 10.0) };
        let mut plot = ChartBuilder::on(area)
            .margin_left(NAMES)
            .margin_right(28)
            .x_label_area_size(54)
            .build_cartesian_2d(-width * 0.01..width * 1.01, 0.0..height)?;
        plot.configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.10))
            .axis_style(BLACK.mix(0.35))
            .x_labels(12)
            .x_label_formatter(&|us| format!("{us:.decimals$}"))
            .x_label_style(("sans-serif", 19).into_font().color(&FAINT))
            .x_desc("\u{b5}s")
            .axis_desc_style(("sans-serif", 19).into_font().color(&FAINT))
            .draw()?;
        let mut floor = height;
        for lane in &self.lanes {
            floor -= 1.0;
            let line = [(-width * 0.01, floor), (width * 1.01, floor)];
            plot.draw_series([PathElement::new(line, BLACK.mix(0.12))])?;
            draw_lane(&mut plot, lane, floor, axis)?;
            let (_, y) = plot.backend_coord(&(0.0, floor + f64::midpoint(BARS[0], BARS[1])));
            let (_, top) = area.get_base_pixel();
            let style = ("sans-serif", 21).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(lane.name.as_str(), (NAMES - 10, y - top), style))?;
        }
        Ok(())
    }
}

fn draw_lane(plot: &mut Plot<'_, '_>, lane: &Lane, floor: f64, axis: Axis) -> Result<(), Box<dyn Error>> {
    let [low, high] = BARS.map(|height| floor + height);
    let is_seen = |[from, until]: [u64; 2]| axis.is_inside(until) || axis.is_inside(from);
    let waits = lane.waits.iter().filter(|span| is_seen(**span));
    plot.draw_series(waits.map(|[from, until]| {
        Rectangle::new([(axis.at(*from), low), (axis.at(*until), high)], WAIT.filled())
    }))?;
    let bars: Vec<_> = lane.bars.iter().filter(|bar| is_seen(bar.span_ns)).collect();
    plot.draw_series(bars.iter().map(|bar| {
        let [from, until] = axis.bar(bar);
        Rectangle::new([(from, low), (until, high)], bar.color.filled())
    }))?;
    // A hairline separates neighbours that touch, if they are wide enough to lose it.
    let wide =
        bars.iter().skip(1).map(|bar| axis.bar(bar)).filter(|[from, until]| axis.hairs(until - from) > 3.0);
    plot.draw_series(
        wide.map(|[from, _]| PathElement::new([(from, low), (from, high)], WHITE.stroke_width(1))),
    )?;
    let slants = lane.slants.iter().filter(|slant| is_seen([slant.leaves_ns[0], slant.arrives_ns[1]]));
    for slant in slants {
        let [left, right] = slant.leaves_ns.map(|ns| (axis.at(ns), high));
        let [begin, end] = slant.arrives_ns.map(|ns| (axis.at(ns), low));
        plot.draw_series([Polygon::new([left, right, end, begin], slant.color.filled())])?;
        // A short packet has hardly any area, so its edge is drawn as well.
        plot.draw_series([PathElement::new([left, begin], slant.color.stroke_width(1))])?;
    }
    for tick in lane.ticks.iter().filter(|tick| axis.is_inside(tick.at_ns)) {
        let heights = match tick.place {
            Place::Below => TICKS,
            Place::Among => BARS,
            Place::Across => [0.0, 1.0],
        };
        let line = heights.map(|height| (axis.at(tick.at_ns), floor + height));
        plot.draw_series([PathElement::new(line, tick.color.stroke_width(2))])?;
    }
    Ok(())
}

/// Widths of an entry's sample and its text.
const fn widths(meaning: &Meaning) -> [i32; 2] {
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a few words")]
    let text = meaning.text.len() as i32 * 17 / 2;
    [if meaning.is_tick { 3 } else { 24 }, text]
}

/// Lines of the legend, each with as many entries as fit.
fn arranged(legend: &[Meaning]) -> Vec<Vec<(i32, &Meaning)>> {
    let mut lines: Vec<Vec<_>> = Vec::new();
    let mut x = i32::MAX;
    for meaning in legend {
        let width = widths(meaning)[0] + 8 + widths(meaning)[1];
        if x.saturating_add(width) > WIDTH.cast_signed() {
            x = LEGEND_LEFT;
            lines.push(Vec::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push((x, meaning));
        }
        x += width + 22;
    }
    lines
}

fn draw_legend(area: &Area<'_>, lines: &[Vec<(i32, &Meaning)>]) -> Result<(), Box<dyn Error>> {
    let mut top = 6;
    for line in lines {
        for &(x, meaning) in line {
            let [width, _] = widths(meaning);
            let half = width / 2;
            let [left, right] = meaning.colors;
            area.draw(&Rectangle::new([(x, top + 2), (x + half, top + 14)], left.filled()))?;
            area.draw(&Rectangle::new([(x + half, top + 2), (x + width, top + 14)], right.filled()))?;
            let style = ("sans-serif", 19).into_font().color(&FAINT);
            area.draw(&Text::new(meaning.text.as_str(), (x + width + 8, top), style))?;
        }
        top += LEGEND_LINE.cast_signed();
    }
    Ok(())
}
