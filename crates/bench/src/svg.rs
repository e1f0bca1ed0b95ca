//! The growth curves as a picture: three small charts, drawn by hand so that nothing else is needed to draw them.

use crate::goals::growth::{Curves, Point};
use std::fmt::Write as _;

const WIDE: f64 = 300.0;
const HIGH: f64 = 220.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 36.0;
const COLOURS: [&str; 2] = ["#1b6ca8", "#c8553d"];

/// One chart: its title, what is counted, and named lines.
struct Chart<'a> {
    title: &'a str,
    lines: &'a [(&'a str, &'a [Point])],
    /// Numbers along the axis grow tenfold from step to step.
    logarithmic: bool,
}

/// The whole picture.
pub(crate) fn draw(curves: &Curves) -> String {
    let members = [("direct event", &curves.direct[..]), ("channel event", &curves.seated[..])];
    let channels = [("channel event", &curves.channels[..])];
    let log = [("channel event", &curves.log[..])];
    let charts = [
        Chart { title: "members", lines: &members, logarithmic: true },
        Chart { title: "channels", lines: &channels, logarithmic: true },
        Chart { title: "events in the log (millions)", lines: &log, logarithmic: false },
    ];
    let most =
        charts.iter().flat_map(|c| c.lines).flat_map(|(_, points)| points.iter()).map(|p| p.1).fold(0.0, f64::max);
    let top = nice(most.max(0.1) * 1.15);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {HIGH}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDE * charts.len() as f64
    );
    for (n, chart) in charts.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({},0)\">", n as f64 * WIDE);
        chart.draw(&mut out, top);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// The next number that reads well.
fn nice(value: f64) -> f64 {
    let base = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * base).find(|n| *n >= value).unwrap_or(value)
}

impl Chart<'_> {
    fn draw(&self, out: &mut String, top: f64) {
        let (right, floor) = (WIDE - 12.0, HIGH - BOTTOM);
        let y = |cost: f64| floor - cost / top * (floor - TOP);
        let xs: Vec<u64> = self.lines.iter().flat_map(|(_, points)| points.iter().map(|p| p.0)).collect();
        let (low, high) = (xs.iter().min().copied().unwrap_or(0), xs.iter().max().copied().unwrap_or(1));
        let place = |n: u64| if self.logarithmic { (n.max(1) as f64).log10() } else { n as f64 };
        let span = (place(high) - place(low)).max(1e-9);
        let x = |n: u64| LEFT + (place(n) - place(low)) / span * (right - LEFT);
        for part in 0..=4 {
            let cost = top * f64::from(part) / 4.0;
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{cost:.2}</text>",
                y(cost),
                LEFT - 6.0,
                y(cost) + 4.0
            );
        }
        let mut marks = xs.clone();
        marks.sort_unstable();
        marks.dedup();
        let every = marks.len().div_ceil(6).max(1);
        for n in marks.iter().step_by(every) {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x(*n),
                floor + 16.0,
                self.label(*n)
            );
        }
        let middle = (LEFT + right) / 2.0;
        let _ =
            writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>", HIGH - 10.0, self.title);
        let _ = writeln!(out, "<text x=\"6\" y=\"14\">CPU µs per event</text>");
        for (n, ((name, points), colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let path: Vec<String> = points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            for p in points.iter() {
                let _ = writeln!(out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x(p.0), y(p.1));
            }
            let _ = writeln!(
                out,
                "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>",
                14.0 + 13.0 * n as f64
            );
        }
    }

    fn label(&self, n: u64) -> String {
        match n {
            _ if !self.logarithmic => format!("{}", n as f64 / 1e6),
            n if n >= 1000 => format!("{}k", n / 1000),
            n => n.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_with_every_point() {
        let curves = Curves {
            direct: vec![(10, 1.0), (10_000, 1.2)],
            seated: vec![(10, 1.1), (10_000, 1.3)],
            channels: vec![(1, 1.0), (1_000, 1.0)],
            log: vec![(0, 1.0), (10_000_000, 1.4)],
        };
        let svg = draw(&curves);
        assert_eq!(svg.matches("<circle").count(), 8);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains(">10k</text>") && svg.contains(">10</text>") && !svg.contains("NaN"));
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn one_point_or_none_draws() {
        let none = Curves { direct: vec![], seated: vec![], channels: vec![(1, 0.5)], log: vec![] };
        assert!(!draw(&none).contains("NaN"));
    }

    #[test]
    fn round_numbers() {
        assert_eq!([0.7, 1.2, 3.0, 11.0].map(nice), [1.0, 2.0, 5.0, 20.0]);
    }
}
