//! The plots: bandwidth and time over size, as SVG.

use core::error::Error;
use core::ops::Range;
use std::collections::BTreeMap;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::data::{Measured, Series};
use super::text;
use crate::plan::{Memory, Part, Test};
use crate::raw::{Kind, State};

const SIZE: (u32, u32) = (1000, 620);
const FONT: &str = "sans-serif";
/// Colours that people with any eyes tell apart, for peers; used again with a thinner line when they are used up.
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

type Drawn = Result<String, Box<dyn Error>>;

/// One line.
struct Curve {
    title: String,
    color: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// A plot's words, and what it shows of time.
struct Shape {
    title: String,
    y: &'static str,
    /// gigabytes a second, instead of microseconds
    is_rate: bool,
    with_points: bool,
    legend: SeriesLabelPosition,
}

/// Every plot that there are figures for: file name and contents.
pub(super) fn all(measured: &[Measured]) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut files = Vec::new();
    for state in [State::Near, State::Far] {
        let cores = text::state(state);
        let of = |parts: &[Part]| -> Vec<&Measured> {
            measured.iter().filter(|measured| parts.contains(&measured.part)).collect()
        };
        let (reused, cold, steps) = (of(&[Part::Small, Part::Large]), of(&[Part::Cold]), of(&[Part::Steps]));
        let plots = [
            ("latency", &reused, Test::Latency, false, "half round trip, reused buffers"),
            ("pingpong", &reused, Test::Latency, true, "ping-pong, reused buffers"),
            ("stream", &reused, Test::Stream, true, "streaming, reused buffers"),
            ("cold", &cold, Test::Latency, true, "ping-pong, cold destination"),
            ("steps", &steps, Test::Latency, true, "superpipe, ping-pong, steps of 5 %"),
            ("steps-stream", &steps, Test::Stream, true, "superpipe, streaming, steps of 5 %"),
        ];
        for (name, parts, test, is_rate, title) in plots {
            let curves = curves(parts, state, test, is_rate);
            if !curves.is_empty() {
                let y = if is_rate { "GB/s, 10^9 bytes a second" } else { "time of a message" };
                let title = format!("{title}, cores {cores}");
                // where the curves leave room
                let legend = if is_rate && name != "cold" {
                    SeriesLabelPosition::LowerRight
                } else {
                    SeriesLabelPosition::UpperLeft
                };
                let shape = Shape { title, y, is_rate, with_points: !name.starts_with("steps"), legend };
                files.push((format!("{name}-{cores}.svg"), draw(&shape, &curves)?));
            }
        }
    }
    Ok(files)
}

fn curves(parts: &[&Measured], state: State, test: Test, is_rate: bool) -> Vec<Curve> {
    let mut points: BTreeMap<(usize, Memory), Curve> = BTreeMap::new();
    let mut peers: Vec<String> = Vec::new();
    for measured in parts {
        for contestant in measured.contestants.iter().filter(|other| other.kind != Kind::Aside) {
            let place = peers.iter().position(|id| *id == contestant.id).unwrap_or_else(|| {
                peers.push(contestant.id.clone());
                peers.len() - 1
            });
            for memory in [Memory::Reused, Memory::Superpipe, Memory::Advised, Memory::Plain] {
                let series = |bytes| Series { who: &contestant.id, memory, test, bytes };
                let point = |bytes| {
                    let us = measured.us(state, series(bytes))?.median;
                    Some((bytes as f64, if is_rate { text::gb_per_s(bytes, us) } else { us }))
                };
                let found: Vec<_> = measured.sizes(test).into_iter().filter_map(point).collect();
                if !found.is_empty() {
                    let curve = points.entry((place, memory)).or_insert_with(|| {
                        let peers = measured.contestants.iter().filter(|other| other.kind == Kind::Peer);
                        let peer = peers.map(|peer| &peer.id).position(|id| *id == contestant.id);
                        let (color, width) = style(contestant.kind, memory, peer.unwrap_or(0));
                        Curve { title: title(contestant, memory), color, width, points: Vec::new() }
                    });
                    curve.points.extend(found);
                }
            }
        }
    }
    points.into_values().collect()
}

fn title(contestant: &crate::raw::Contestant, memory: Memory) -> String {
    match memory {
        Memory::Superpipe => "superpipe, its own".to_owned(),
        Memory::Advised => "superpipe, advised".to_owned(),
        Memory::Plain if contestant.kind == Kind::Superpipe => "superpipe, not told".to_owned(),
        Memory::Plain | Memory::Reused => contestant.title.clone(),
    }
}

fn style(kind: Kind, memory: Memory, peer: usize) -> (RGBColor, u32) {
    match (kind, memory) {
        (Kind::Limit, _) => (BLACK, 2),
        (Kind::Superpipe, Memory::Advised) => (OWN[1], 3),
        (Kind::Superpipe, Memory::Plain) => (OWN[2], 3),
        (Kind::Superpipe, _) => (OWN[0], 3),
        _ => (COLORS[peer % COLORS.len()], if peer < COLORS.len() { 2 } else { 1 }),
    }
}

fn draw(shape: &Shape, curves: &[Curve]) -> Drawn {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let x = range(curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)));
        let y = range(curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1)));
        let mut chart = ChartBuilder::on(&area)
            .caption(&shape.title, (FONT, 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(BLACK.mix(0.06))
            .bold_line_style(BLACK.mix(0.2))
            .x_desc("bytes of a message")
            .y_desc(shape.y)
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

/// All values, with a little room around them.
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
