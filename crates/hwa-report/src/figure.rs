//! Drawing curves as SVG.

use plotters::prelude::*;

use crate::ReportError;
use crate::curves::Curves;

const SIZE: (u32, u32) = (820, 440);

/// Colours that the colour-blind can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
];

impl Curves {
    /// Draws the curves, with the chosen cycle marked.
    pub fn to_svg(&self, title: &str) -> Result<String, ReportError> {
        let mut svg = String::new();
        self.draw(title, &mut svg).map_err(|e| ReportError::Drawing { reason: e.to_string() })?;
        Ok(svg)
    }

    fn draw(&self, title: &str, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (cycles, accuracies) = self.ranges();
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d(cycles, accuracies)?;
        chart
            .configure_mesh()
            .x_desc("cycle")
            .y_desc("validation accuracy, %")
            .x_label_formatter(&|cycle| format!("{cycle:.0}"))
            .y_label_formatter(&|accuracy| short(*accuracy))
            .label_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()?;
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let points = curve.points.iter().map(|(cycle, top1)| (*cycle as f64, *top1));
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
        }
        if let Some((cycle, top1)) = self.chosen {
            let mark = Circle::new((cycle as f64, top1), 5, BLACK.stroke_width(2));
            chart
                .draw_series([mark])?
                .label(format!("chosen: cycle {cycle}, {top1:.2} %"))
                .legend(|(x, y)| Circle::new((x + 9, y), 5, BLACK.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 13))
            .margin(10)
            .draw()?;
        area.present()?;
        Ok(())
    }

    fn ranges(&self) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let last = points().map(|(cycle, _)| *cycle).max().unwrap_or(1);
        let low = points().map(|(_, top1)| *top1).fold(f64::INFINITY, f64::min);
        let high = points().map(|(_, top1)| *top1).fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 100.0) };
        let room = (0.06 * (high - low)).max(0.5);
        (0.0..last as f64 + 1.0, (low - room).max(0.0)..(high + room).min(101.0))
    }
}

/// Two decimals at most, and none that is zero.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
