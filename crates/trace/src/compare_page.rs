//! Writes one workload under several submission models as one self-contained HTML page.
//!
//! The page shows, in this order: the verdict, one bar per model of where its time went with the
//! definition of each part, one sentence per visible difference, and the timelines as bands with a
//! common zoom. The bands are drawn by the script of the timeline page.
//!
//! - The parts of a model must sum to its makespan; otherwise [`write()`] refuses.
//! - Every text is escaped. The page needs no network and no other file.
//!
//! Entry points: [`ComparePage`], [`write()`].

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::critical_path::PathPart;
use crate::durations::duration;
use crate::html::{self, escaped};
use crate::model::Trace;
use crate::palette;

/// The content of a comparison page.
#[derive(Clone, Debug)]
pub struct ComparePage<'a> {
    /// The title, such as the workload's name.
    pub title: String,
    /// The verdict: one sentence per model, the baseline first.
    pub verdict: Vec<String>,
    /// The models, in the order in which they are drawn.
    pub models: Vec<ComparedModel<'a>>,
    /// One sentence for each difference that the bands show.
    pub differences: Vec<String>,
}

/// One submission model of a comparison.
#[derive(Clone, Debug)]
pub struct ComparedModel<'a> {
    /// Its name, such as `packet`.
    pub name: String,
    /// Makespan in nanoseconds.
    pub makespan_ns: u64,
    /// Parts of the makespan in nanoseconds; `None` is time that is not accounted for.
    pub parts: Vec<(Option<PathPart>, u64)>,
    /// The model's timeline.
    pub trace: &'a Trace,
}

/// Writes `page` to `out`.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the parts of a model do not sum to its makespan; otherwise
/// errors of `out`.
pub fn write(page: &ComparePage<'_>, out: impl Write) -> io::Result<()> {
    for model in &page.models {
        let sum: u128 = model.parts.iter().map(|(_, ns)| u128::from(*ns)).sum();
        if sum != u128::from(model.makespan_ns) {
            let text = format!(
                "comparison of '{}': the parts of model '{}' sum to {sum} ns, its makespan is {} ns; \
                 give parts that sum to the makespan",
                page.title, model.name, model.makespan_ns
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    let traces: Vec<(&str, u64, &Trace)> =
        page.models.iter().map(|m| (m.name.as_str(), m.makespan_ns, m.trace)).collect();
    html::write_bands(&page.title, &lead(page), &traces, out)
}

/// The content above the bands.
fn lead(page: &ComparePage<'_>) -> String {
    let mut out = format!("<article id=\"lead\">\n<h1>{}</h1>\n", escaped(&page.title));
    sentences(&mut out, "verdict-lines", &page.verdict);
    out.push_str("<h2>Where the time went</h2>\n");
    bars(&mut out, page);
    if !page.differences.is_empty() {
        out.push_str("<h2>What differs</h2>\n");
        sentences(&mut out, "differences", &page.differences);
    }
    out.push_str("</article>\n");
    out
}

fn sentences(out: &mut String, id: &str, sentences: &[String]) {
    let _ = writeln!(out, "<ul id=\"{id}\">");
    for sentence in sentences {
        let _ = writeln!(out, "<li>{}</li>", escaped(sentence));
    }
    out.push_str("</ul>\n");
}

/// The parts that take time under any model, each once, in the order of reports.
fn parts(page: &ComparePage<'_>) -> Vec<Option<PathPart>> {
    let taken = |part: &Option<PathPart>| {
        let all = page.models.iter().flat_map(|model| &model.parts);
        all.into_iter().any(|(other, ns)| other == part && *ns > 0)
    };
    PathPart::ALL.into_iter().map(Some).chain([None]).filter(taken).collect()
}

fn label(part: Option<PathPart>) -> &'static str {
    part.map_or("not accounted for", PathPart::label)
}

/// The narrowest part with a label, in percent of the longest bar. The table has the time of every
/// part.
const LEAST_TEXT_PERCENT: f64 = 6.0;

fn bars(out: &mut String, page: &ComparePage<'_>) {
    let longest = page.models.iter().map(|model| model.makespan_ns).max().unwrap_or(0).max(1);
    out.push_str("<div id=\"bars\">\n");
    for model in &page.models {
        let _ = writeln!(
            out,
            "<div class=\"bar-name\">{}</div><div class=\"bar\" data-makespan=\"{}\">",
            escaped(&model.name),
            model.makespan_ns
        );
        for (part, ns) in model.parts.iter().filter(|(_, ns)| *ns > 0) {
            let width = *ns as f64 * 100.0 / longest as f64;
            let text = if width < LEAST_TEXT_PERCENT { String::new() } else { duration(*ns) };
            let share = percent(*ns, model.makespan_ns);
            let _ = writeln!(
                out,
                "<span class=\"part {}\" data-ns=\"{ns}\" style=\"width:{width:.4}%\" title=\"{}: {} ({share})\">\
                 <b>{text}</b></span>",
                palette::class(*part),
                label(*part),
                duration(*ns),
            );
        }
        let _ =
            writeln!(out, "<span class=\"bar-end\">{}</span></div>", duration(model.makespan_ns));
    }
    out.push_str("</div>\n");
    let parts = parts(page);
    table(out, page, &parts);
    definitions(out, &parts);
}

/// What each part is.
fn definitions(out: &mut String, parts: &[Option<PathPart>]) {
    out.push_str("<dl id=\"definitions\">\n");
    for part in parts.iter().flatten() {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", part.label(), escaped(part.meaning()));
    }
    out.push_str("</dl>\n");
}

/// The numbers of the bars; the first column is the legend.
fn table(out: &mut String, page: &ComparePage<'_>, parts: &[Option<PathPart>]) {
    out.push_str("<div class=\"wide\"><table id=\"parts\">\n<tr><th></th>");
    for model in &page.models {
        let _ = write!(out, "<th colspan=\"2\">{}</th>", escaped(&model.name));
    }
    out.push_str("</tr>\n");
    for part in parts {
        let (class, label) = (palette::class(*part), label(*part));
        let _ = write!(out, "<tr><td><i class=\"{class}\"></i>{label}</td>");
        for model in &page.models {
            let ns = model.parts.iter().filter(|(own, _)| own == part).map(|(_, ns)| ns).sum();
            let _ =
                write!(out, "<td>{}</td><td>{}</td>", duration(ns), percent(ns, model.makespan_ns));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("<tr class=\"total\"><td>makespan</td>");
    for model in &page.models {
        let _ = write!(out, "<td>{}</td><td></td>", duration(model.makespan_ns));
    }
    out.push_str("</tr>\n</table></div>\n");
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn text(page: &ComparePage<'_>) -> String {
        let mut out = Vec::new();
        write(page, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_page_says_what_it_was_given_and_points_nowhere() {
        let traces = sample::three_models();
        let page = sample::comparison(&traces);
        let text = text(&page);
        for sentence in page.verdict.iter().chain(&page.differences) {
            assert!(text.contains(&escaped(sentence)), "{sentence}");
        }
        for outside in ["http:", "https:", "src=", "@import", "url(", "fetch(", "import("] {
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(!text.contains("{{"));
        assert_eq!(text.matches("class=\"bar\"").count(), 3);
    }

    #[test]
    fn no_text_can_leave_its_place() {
        let traces = sample::three_models();
        let mut page = sample::comparison(&traces);
        let nasty = "</ul><script>alert(\"1\")</script>{{columns}}";
        page.title = nasty.to_owned();
        page.verdict.push(nasty.to_owned());
        page.models[0].name = nasty.to_owned();
        page.differences.push(nasty.to_owned());
        let text = text(&page);
        assert_eq!(text.matches("<script").count(), 3);
        assert_eq!(text.matches("</title>").count(), 1);
        assert!(text.contains("&lt;/ul&gt;&lt;script&gt;"));
    }

    #[test]
    fn parts_that_do_not_sum_are_refused() {
        let traces = sample::three_models();
        let mut page = sample::comparison(&traces);
        page.models[1].parts[0].1 += 1;
        let error = write(&page, Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("sum to"), "{error}");
    }

    #[test]
    fn bars_have_one_scale_and_shares_are_of_their_own_model() {
        let traces = sample::three_models();
        let model = |name: &str, work, idle| ComparedModel {
            name: name.to_owned(),
            makespan_ns: work + idle,
            parts: vec![(Some(PathPart::Gpu), work), (Some(PathPart::Idle), idle)],
            trace: &traces[0],
        };
        let models = vec![model("packet", 150, 50), model("user", 60, 40)];
        let page = ComparePage {
            title: "t".to_owned(),
            verdict: Vec::new(),
            models,
            differences: Vec::new(),
        };
        let text = text(&page);
        for (width, title) in [
            ("75.0000", "GPU work: 150 ns (75.0 %)"),
            ("25.0000", "idle: 50 ns (25.0 %)"),
            ("30.0000", "GPU work: 60 ns (60.0 %)"),
            ("20.0000", "idle: 40 ns (40.0 %)"),
        ] {
            let part = format!("style=\"width:{width}%\" title=\"{title}\"");
            assert!(text.contains(&part), "{part}");
        }
        assert!(text.contains("<td>150 ns</td><td>75.0 %</td><td>60 ns</td><td>60.0 %</td>"));
    }

    #[test]
    fn parts_that_are_missing_are_refused() {
        let traces = sample::three_models();
        let mut page = sample::comparison(&traces);
        page.models[1].parts[0].1 -= 1;
        assert!(write(&page, Vec::new()).unwrap_err().to_string().contains("sum to"));
    }
}
