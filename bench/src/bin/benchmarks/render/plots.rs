//! Plots of bandwidth and time over size, as SVG.

use core::error::Error;
use core::ops::Range;
use std::collections::BTreeMap;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::tables::title;
use super::{Measured, text};
use crate::class::Class;
use crate::figures::{Kind, Series};
use crate::plan::{ADVISED, LATENCY, PLAIN, Part, REUSED, STREAM, SUPERPIPE};

const SIZE: (u32, u32) = (1000, 620);
const FONT: &str = "sans-serif";
/// Colours for peers that colour-blind people can tell apart; used again, with a thinner line, when they are used up.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(150, 120, 60),
    RGBColor(110, 110, 110),
    RGBColor(130, 70, 170),
];
const OWN: [RGBColor; 3] = [RGBColor(200, 0, 0), RGBColor(255, 110, 90), RGBColor(120, 0, 40)];

/// A plot as a file.
pub(super) struct Plot {
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) file: String,
    pub(super) svg: String,
}

/// One line.
struct Curve {
    title: String,
    color: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// The content of a plot, and its place in the plane.
struct Shape {
    name: &'static str,
    parts: &'static [Part],
    test: &'static str,
    /// gigabytes per second, instead of microseconds
    is_rate: bool,
    with_points: bool,
    /// the corner where the curves leave room
    legend: SeriesLabelPosition,
    title: &'static str,
}

const REUSED_PARTS: &[Part] = &[Part::Small, Part::Large];
const LEFT: SeriesLabelPosition = SeriesLabelPosition::UpperLeft;
const RIGHT: SeriesLabelPosition = SeriesLabelPosition::LowerRight;

#[rustfmt::skip]
const SHAPES: [Shape; 6] = [
    Shape { name: "latency", parts: REUSED_PARTS, test: LATENCY, is_rate: false, with_points: true, legend: LEFT, title: "half round trip, reused buffers" },
    Shape { name: "pingpong", parts: REUSED_PARTS, test: LATENCY, is_rate: true, with_points: true, legend: RIGHT, title: "ping-pong, reused buffers" },
    Shape { name: "stream", parts: REUSED_PARTS, test: STREAM, is_rate: true, with_points: true, legend: RIGHT, title: "streaming, reused buffers" },
    Shape { name: "cold", parts: &[Part::Cold], test: LATENCY, is_rate: true, with_points: true, legend: LEFT, title: "ping-pong, cold destination" },
    Shape { name: "steps", parts: &[Part::Steps], test: LATENCY, is_rate: true, with_points: false, legend: RIGHT, title: "superpipe, ping-pong, steps of 5 %" },
    Shape { name: "steps-stream", parts: &[Part::Steps], test: STREAM, is_rate: true, with_points: false, legend: RIGHT, title: "superpipe, streaming, steps of 5 %" },
];

/// Draws every plot that there are figures for.
pub(super) fn all(measured: &[Measured]) -> Result<Vec<Plot>, Box<dyn Error>> {
    let mut plots = Vec::new();
    for class in Class::SHOWN.into_iter().filter(|class| *class != Class::Unknown) {
        for shape in &SHAPES {
            let curves = curves(measured, shape, class);
            if !curves.is_empty() {
                let title = format!("{}, {}", shape.title, class.name());
                let file = format!("{}-{}.svg", shape.name, class.name());
                let svg = draw(shape, &title, &curves)?;
                plots.push(Plot { name: shape.name, title, file, svg });
            }
        }
    }
    Ok(plots)
}

/// The curves by contestant and place, each over all parts of the plot.
fn curves(measured: &[Measured], shape: &Shape, class: Class) -> Vec<Curve> {
    let mut curves: BTreeMap<(usize, usize), Curve> = BTreeMap::new();
    let mut seen: Vec<&str> = Vec::new();
    let test = shape.test;
    for measured in measured.iter().filter(|measured| shape.parts.contains(&measured.part)) {
        let contestants = &measured.figures.contestants;
        for contestant in contestants.iter().filter(|other| other.kind != Kind::Aside) {
            let who = contestant.id.as_str();
            let index = seen.iter().position(|id| *id == who).unwrap_or_else(|| {
                seen.push(who);
                seen.len() - 1
            });
            for (at, place) in [REUSED, PLAIN, ADVISED, SUPERPIPE].into_iter().enumerate() {
                let point = |size| {
                    let us = measured.figures.spread(class, Series { test, who, place, size })?.median;
                    Some((size as f64, if shape.is_rate { text::gb_per_s(size, us) } else { us }))
                };
                let points: Vec<_> =
                    measured.figures.sizes(test, &[place]).into_iter().filter_map(point).collect();
                if !points.is_empty() {
                    let curve = curves.entry((index, at)).or_insert_with(|| {
                        let mut peers = contestants.iter().filter(|other| other.kind == Kind::Peer);
                        let peer = peers.position(|peer| peer.id == who).unwrap_or(0);
                        let (color, width) = style(contestant.kind, place, peer);
                        Curve { title: title(contestant, place), color, width, points: Vec::new() }
                    });
                    curve.points.extend(points);
                }
            }
        }
    }
    curves.into_values().collect()
}

fn style(kind: Kind, place: &str, peer: usize) -> (RGBColor, u32) {
    match (kind, place) {
        (Kind::Limit, _) => (BLACK, 2),
        (Kind::Superpipe, ADVISED) => (OWN[1], 3),
        (Kind::Superpipe, PLAIN) => (OWN[2], 3),
        (Kind::Superpipe, _) => (OWN[0], 3),
        _ => (COLORS[peer % COLORS.len()], if peer < COLORS.len() { 2 } else { 1 }),
    }
}

fn draw(shape: &Shape, title: &str, curves: &[Curve]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let x = range(curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)));
        let y = range(curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1)));
        let mut chart = ChartBuilder::on(&area)
            .caption(title, (FONT, 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(BLACK.mix(0.06))
            .bold_line_style(BLACK.mix(0.2))
            .x_desc("bytes of a message")
            .y_desc(if shape.is_rate { "GB/s, 10^9 bytes per second" } else { "time of a message" })
            .x_labels(14)
            .x_label_formatter(&|bytes| label_of_size(*bytes))
            .y_label_formatter(&|value| {
                if shape.is_rate { text::digits(*value) } else { label_of_time(*value) }
            })
            .draw()?;
        for curve in curves {
            let style = curve.color.stroke_width(curve.width);
            let point_size = if shape.with_points { curve.width + 1 } else { 0 };
            chart
                .draw_series(LineSeries::new(curve.points.clone(), style).point_size(point_size))?
                .label(&curve.title)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .position(shape.legend.clone())
            .label_font((FONT, 13))
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

/// The range of all values, with some room around them.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
    low / 1.2..high * 1.2
}

fn label_of_size(bytes: f64) -> String {
    match bytes {
        _ if bytes >= f64::from(1 << 20) => format!("{} MiB", bytes / f64::from(1 << 20)),
        _ if bytes >= f64::from(1 << 10) => format!("{} KiB", bytes / f64::from(1 << 10)),
        _ => format!("{bytes} B"),
    }
}

fn label_of_time(us: f64) -> String {
    match us {
        _ if us >= 999.0 => format!("{} ms", text::digits(us / 1e3)),
        _ if us >= 0.999 => format!("{} µs", text::digits(us)),
        _ => format!("{} ns", text::digits(us * 1e3)),
    }
}
