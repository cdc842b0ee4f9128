//! Draws curves as SVG: both axes logarithmic, a line and a name for each series. It follows the
//! colours of the reader's system.

use std::fmt::Write as _;
use tidegate_measure::time;

/// One line of a chart. Its points are the number and the nanoseconds.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"];

/// A logarithmic axis over whole decades.
struct Axis {
    first: i32,
    last: i32,
    start: f64,
    end: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, start: f64, end: f64) -> Axis {
        let least = values.clone().fold(f64::INFINITY, f64::min).max(1e-9);
        let most = values.fold(f64::MIN_POSITIVE, f64::max).max(least);
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        Axis { first, last: last.max(first + 1), start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let decades = value.max(1e-9).log10() - f64::from(self.first);
        self.start + (self.end - self.start) * decades / f64::from(self.last - self.first)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.first..=self.last).map(|decade| 10f64.powi(decade))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A whole number with separators.
fn number(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the chart of these lines as an SVG document. `across` names the horizontal axis, `up`
/// the vertical one.
pub(crate) fn svg(title: &str, across: &str, up: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let horizontal = Axis::over(points().map(|(x, _)| x), LEFT, WIDTH - RIGHT);
    let vertical = Axis::over(points().map(|(_, y)| y), HEIGHT - BOTTOM, TOP);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{}</title>\n\
         <style>text{{font:13px sans-serif;fill:#222}}.grid{{stroke:#8884}}rect{{fill:#fff}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ddd}}rect{{fill:#1b1b1b}}}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-weight=\"bold\">{}</text>\n",
        escaped(title),
        escaped(title)
    );
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for tick in horizontal.ticks() {
        let (x, below) = (horizontal.at(tick), bottom + 18.0);
        let _ = writeln!(
            text,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/><text x=\"{x:.1}\" y=\"{below}\" \
             text-anchor=\"middle\">{}</text>",
            number(tick)
        );
    }
    for tick in vertical.ticks() {
        let (y, before) = (vertical.at(tick), LEFT - 8.0);
        let _ = writeln!(
            text,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{before}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            y + 4.0,
            time(tick)
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"42\">{}</text>",
        LEFT.midpoint(right),
        HEIGHT - 16.0,
        escaped(across),
        escaped(up)
    );
    for (index, line) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let place = |(x, y): &(f64, f64)| (horizontal.at(*x), vertical.at(*y));
        let path: Vec<String> =
            line.points.iter().map(place).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(
            text,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join("L")
        );
        for (x, y) in line.points.iter().map(place) {
            let _ =
                writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let y = TOP + 20.0 * index as f64;
        let (box_x, text_x) = (right + 14.0, right + 30.0);
        let _ = writeln!(
            text,
            "<circle cx=\"{box_x}\" cy=\"{}\" r=\"5\" fill=\"{colour}\"/><text x=\"{text_x}\" y=\"{}\">{}</text>",
            y - 4.0,
            y,
            escaped(&line.name)
        );
    }
    text + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_lines_names_and_decades() {
        let line = |name: &str, last| Line {
            name: name.to_owned(),
            points: vec![(1.0, 20.0), (100.0, 30.0), (10_000.0, last)],
        };
        let text = svg("a < b", "waiters", "release", &[line("row", 90.0), line("peer", 5e6)]);
        for part in ["a &lt; b", ">row<", ">peer<", ">10,000<", ">10.0 ns<", "10.00 ms", "waiters"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("<circle").count(), 8);
        assert!(!text.contains("NaN") && text.ends_with("</svg>\n"));
    }

    #[test]
    fn a_point_alone_has_an_axis() {
        let axis = Axis::over([10.0].into_iter(), 0.0, 100.0);
        assert_eq!((axis.at(10.0), axis.at(100.0)), (0.0, 100.0));
        assert_eq!([1.0, 1_000.0, 65_536.0].map(number), ["1", "1,000", "65,536"]);
    }
}
