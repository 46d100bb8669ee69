//! A figure: curves over the size of a message, as numbers and as a plot.

use core::error::Error;
use core::fmt::Write;
use core::ops::Range;

use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1000, 620);
const FONT: &str = "sans-serif";
/// Colours that colour-blind people can tell apart.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 0, 0),
    RGBColor(200, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// The values of a figure, and so the scale of its second axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Bandwidth in MB/s, on a linear scale, as Denis has it.
    Bandwidth,
    /// Time in microseconds, on a logarithmic scale, as Frey and Alonso have it.
    Time,
    /// Percent, on a linear scale.
    Percent,
    /// A number, on a logarithmic scale.
    Count,
}

impl Values {
    const fn unit(self) -> &'static str {
        match self {
            Self::Bandwidth => "MB/s",
            Self::Time => "µs",
            Self::Percent => "%",
            Self::Count => "chunks",
        }
    }
}

/// A curve, with a value for each size at which it was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) title: &'static str,
    pub(super) points: Vec<(u64, f64)>,
}

/// A figure of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub(super) title: &'static str,
    /// Its first axis.
    pub(super) of: &'static str,
    pub(super) values: Values,
    pub(super) curves: Vec<Curve>,
}

impl Figure {
    /// Returns a line for each size, with a column for each curve. A curve without a value there has an empty field.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut sizes: Vec<u64> =
            self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let titles = self.curves.iter().map(|curve| format!(",{}", curve.title.replace(',', ";")));
        let mut text = format!("bytes{}\n", titles.collect::<String>());
        for size in sizes {
            let _ = write!(text, "{size}");
            for curve in &self.curves {
                match curve.points.iter().find(|point| point.0 == size) {
                    Some((_, value)) => {
                        let _ = write!(text, ",{value:.3}");
                    }
                    None => text.push(','),
                }
            }
            text.push('\n');
        }
        text
    }

    /// Returns the plot, as SVG.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, String> {
        self.draw().map_err(|error| error.to_string())
    }

    fn draw(&self) -> Result<String, Box<dyn Error>> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let points = || self.curves.iter().flat_map(|curve| &curve.points);
            let x = range(points().map(|point| point.0 as f64));
            let y = range(points().map(|point| point.1));
            let mut builder = ChartBuilder::on(&area);
            builder.caption(self.title, (FONT, 20)).margin(12).x_label_area_size(48).y_label_area_size(72);
            // The two scales have different types.
            let unit = self.values.unit();
            match self.values {
                Values::Bandwidth | Values::Percent => {
                    let chart = builder.build_cartesian_2d(x.log_scale().base(2.0), 0.0..y.end)?;
                    self.fill(chart, unit).map_err(|error| error.to_string())?;
                }
                Values::Time | Values::Count => {
                    let chart = builder.build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?;
                    self.fill(chart, unit).map_err(|error| error.to_string())?;
                }
            }
            area.present()?;
        }
        Ok(svg)
    }

    fn fill<'a, X, Y>(
        &self,
        mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
        unit: &str,
    ) -> Result<(), Box<dyn Error + 'a>>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .light_line_style(BLACK.mix(0.06))
            .bold_line_style(BLACK.mix(0.2))
            .x_desc(self.of)
            .y_desc(unit)
            .x_labels(14)
            .x_label_formatter(&|bytes| label_of_size(*bytes))
            .draw()?;
        for (curve, color) in self.curves.iter().zip(COLORS.into_iter().cycle()) {
            let style = color.stroke_width(2);
            let points = curve.points.iter().map(|(size, value)| (*size as f64, *value));
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(curve.title)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font((FONT, 13))
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        Ok(())
    }
}

/// Returns the range of all values, with some room around them.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let extremes = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.fold((f64::MAX, f64::MIN_POSITIVE), extremes);
    low / 1.2..high * 1.2
}

fn label_of_size(bytes: f64) -> String {
    match bytes {
        _ if bytes >= f64::from(1 << 20) => format!("{} MiB", bytes / f64::from(1 << 20)),
        _ if bytes >= f64::from(1 << 10) => format!("{} KiB", bytes / f64::from(1 << 10)),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_size_and_a_column_for_each_curve() {
        let one = Curve { title: "one, first", points: vec![(10, 1.0), (20, 2.0)] };
        let two = Curve { title: "two", points: vec![(20, 4.5)] };
        for values in [Values::Bandwidth, Values::Time, Values::Percent, Values::Count] {
            let figure =
                Figure { title: "a title", of: "bytes", values, curves: vec![one.clone(), two.clone()] };
            assert_eq!(figure.csv(), "bytes,one; first,two\n10,1.000,\n20,2.000,4.500\n");
            let svg = figure.svg().unwrap();
            assert!(svg.contains("a title") && svg.matches("<polyline").count() >= 2, "{svg}");
        }
    }
}
