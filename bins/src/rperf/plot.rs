//! `--plot`: first, minimum, median, 99th percentile and rate over the message size, with logarithmic axes; of many connections, the rates of all and of each.

use super::many_row::{Direction, ManyRow};
use super::options::Test;
use super::row::Row;
use core::error::Error;
use core::ops::Range;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 640;

/// One curve of the plot.
struct Curve<R> {
    name: &'static str,
    color: RGBColor,
    value: fn(&R) -> f64,
}

/// Series of results to draw.
struct Plot<'a, R> {
    title: &'static str,
    bytes: fn(&R) -> u64,
    left: (&'static str, &'a [Curve<R>]),
    right: &'a Curve<R>,
}

const TIMES: [Curve<Row>; 4] = [
    Curve { name: "median", color: RGBColor(0, 90, 160), value: |row| row.p50_us },
    Curve { name: "first", color: RGBColor(210, 120, 0), value: |row| row.first_us },
    Curve { name: "99 %", color: RGBColor(120, 120, 120), value: |row| row.p99_us },
    Curve { name: "minimum", color: RGBColor(0, 140, 100), value: |row| row.min_us },
];
const RATE: Curve<Row> = Curve { name: "GB/s", color: RGBColor(180, 30, 60), value: |row| row.gb_per_s };

const RATES: [Curve<ManyRow>; 4] = [
    Curve { name: "all", color: RGBColor(0, 90, 160), value: |row| row.messages_per_s },
    Curve { name: "fastest", color: RGBColor(210, 120, 0), value: |row| row.connection_max_per_s },
    Curve { name: "median", color: RGBColor(120, 120, 120), value: |row| row.connection_p50_per_s },
    Curve { name: "slowest", color: RGBColor(0, 140, 100), value: |row| row.connection_min_per_s },
];
const RATE_OF_ALL: Curve<ManyRow> =
    Curve { name: "GB/s", color: RGBColor(180, 30, 60), value: |row| row.gb_per_s };

/// Draws the results as the text of an SVG file.
///
/// # Errors
/// The drawing fails.
pub fn draw(rows: &[Row]) -> Result<String, Box<dyn Error>> {
    let title = match rows.first().map(|row| row.test) {
        Some(Test::Stream) => "rperf: time from one message to the next (left), rate (right)",
        _ => "rperf: half a round trip (left), rate (right)",
    };
    let left = ("microseconds", &TIMES[..]);
    draw_curves(rows, &Plot { title, bytes: |row| row.bytes, left, right: &RATE })
}

/// Draws the results over many connections: of both directions their sum.
///
/// # Errors
/// The drawing fails.
pub fn draw_many(rows: &[ManyRow]) -> Result<String, Box<dyn Error>> {
    let is_both = rows.iter().any(|row| row.direction == Direction::Sum);
    let drawn = rows.iter().filter(|row| !is_both || row.direction == Direction::Sum).cloned();
    let drawn: Vec<ManyRow> = drawn.collect();
    let title = "rperf: messages over all connections and over each (left), rate (right)";
    let left = ("messages per second", &RATES[..]);
    draw_curves(&drawn, &Plot { title, bytes: |row| row.bytes, left, right: &RATE_OF_ALL })
}

fn draw_curves<R>(rows: &[R], plot: &Plot<'_, R>) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let Plot { title, bytes: bytes_of, left: (left_name, left), right } = plot;
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let bytes = range(rows.iter().map(|row| on_log_axis(bytes_of(row))));
        let us = range(rows.iter().flat_map(|row| left.iter().map(|curve| (curve.value)(row))));
        let rates = range(rows.iter().map(right.value));
        let mut chart = ChartBuilder::on(&area)
            .caption(*title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .right_y_label_area_size(72)
            .build_cartesian_2d(bytes.clone().log_scale(), us.log_scale())?
            .set_secondary_coord(bytes.log_scale(), rates.log_scale());
        chart
            .configure_mesh()
            .light_line_style(BLACK.mix(0.05))
            .bold_line_style(BLACK.mix(0.15))
            .x_desc("bytes of a message (0 at 1)")
            .y_desc(*left_name)
            .x_label_formatter(&|bytes| size(*bytes))
            .y_label_formatter(&|us| format!("{us}"))
            .draw()?;
        chart
            .configure_secondary_axes()
            .y_desc("GB/s, 10^9 bytes per second")
            .y_label_formatter(&|rate| format!("{rate}"))
            .draw()?;
        for curve in *left {
            let style = curve.color.stroke_width(2);
            let points = points(rows, *bytes_of, curve);
            chart
                .draw_series(LineSeries::new(points, style).point_size(2))?
                .label(curve.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        let style = right.color.stroke_width(2);
        chart
            .draw_secondary_series(LineSeries::new(points(rows, *bytes_of, right), style).point_size(2))?
            .label(right.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

/// Returns the points of a curve above zero, which a logarithmic axis can show.
fn points<R>(rows: &[R], bytes_of: fn(&R) -> u64, curve: &Curve<R>) -> Vec<(f64, f64)> {
    let points = rows.iter().map(|row| (on_log_axis(bytes_of(row)), (curve.value)(row)));
    let mut points: Vec<_> = points.filter(|(_, value)| *value > 0.0).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// Returns the range of the values above zero, with a margin on both sides.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let all = values.filter(|value| *value > 0.0);
    let (low, high) =
        all.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    if low > high { 0.1..10.0 } else { low / 1.5..high * 1.5 }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn on_log_axis(bytes: u64) -> f64 {
    bytes.max(1) as f64
}

fn size(bytes: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes}"), |(unit, name)| format!("{}{name}", bytes / unit))
}
