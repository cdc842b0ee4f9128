//! `[[expect]]`: expected results. Exactly one of `fence`, `condition`, `buffer`, `check`, `picture` and
//! `metric` names the form.

use super::names::{Symbols, Variables};
use super::objects::{SUBMISSIONS, values_f32};
use super::operation::arguments;
use super::reader::{Section, suggest};
use crate::expect::{Clock, Expect, Expectation, Metric};
use crate::expression::Expr;
use crate::model::{QueueRef, Submission};

const KINDS: [&str; 6] = ["fence", "condition", "buffer", "check", "picture", "metric"];

/// Reads every `[[expect]]`.
pub fn read(top: &Section<'_, '_>, symbols: &Symbols<'_>) -> Vec<Expect> {
    top.tables("expect").iter().filter_map(|section| one(section, symbols)).collect()
}

fn one(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expect> {
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| section.get(kind).is_some()).collect();
    let what = match given[..] {
        ["fence"] => fence(section, symbols),
        ["condition"] => condition(section, symbols),
        ["buffer"] => buffer(section, symbols),
        ["check"] => check(section, symbols),
        ["picture"] => picture(section, symbols),
        ["metric"] => metric(section, symbols),
        [] => {
            section.problem(format!("[[expect]] needs one of: {}", KINDS.join(", ")));
            return None;
        }
        [first, second, ..] => {
            section.problem(format!("one [[expect]] has '{first}' and '{second}'; make two of it"));
            return None;
        }
        [_] => None,
    };
    let says = section.string("says").unwrap_or_default();
    let under = under(section);
    let clock = section.word("clock", &[("wall", Clock::Wall), ("virtual", Clock::Virtual)]);
    section.finish();
    Some(Expect { what: what?, says, under, clock, span: section.span() })
}

fn under(section: &Section<'_, '_>) -> Vec<Submission> {
    let Some(array) = section.array("under") else { return Vec::new() };
    let mut under = Vec::new();
    for value in array {
        let word = value.get_ref().as_str().unwrap_or("");
        match SUBMISSIONS.iter().find(|(name, _)| *name == word) {
            Some((_, submission)) => under.push(*submission),
            None => {
                let hint = suggest(word, SUBMISSIONS.iter().map(|(name, _)| *name));
                let text = format!("'under' cannot hold {}{hint}", section.reader.source(value));
                section.reader.problem(value.span().start, text);
            }
        }
    }
    under
}

fn none() -> Variables {
    Variables::default()
}

fn fence(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expectation> {
    let fence = symbols.reference(section.need("fence")?, &symbols.fences, "fence", &none());
    let value = symbols.need_expr(section, "value", &none());
    Some(Expectation::Fence { fence: fence?, value: value? })
}

fn condition(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expectation> {
    let text = section.need_string("condition")?;
    Some(Expectation::Condition {
        condition: symbols.need_expr(section, "condition", &none())?,
        text,
    })
}

fn offset(section: &Section<'_, '_>, symbols: &Symbols<'_>, key: &'static str) -> Option<Expr> {
    match section.get(key) {
        Some(value) => symbols.expr_of(value, &none()),
        None => Some(Expr::Number(0)),
    }
}

fn tolerance(section: &Section<'_, '_>, otherwise: f32) -> f32 {
    section.float("tolerance").unwrap_or(otherwise)
}

fn buffer(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expectation> {
    let buffer = symbols.reference(section.need("buffer")?, &symbols.buffers, "buffer", &none());
    let offset_value = offset(section, symbols, "offset");
    let now = section.get("same_as_now");
    if let Some(other) = section.get("same_as").or(now) {
        let other = symbols.reference(other, &symbols.buffers, "buffer", &none());
        let other_offset = offset(section, symbols, "same_as_offset");
        let bytes = symbols.need_expr(section, "bytes", &none());
        return Some(Expectation::SameAs {
            buffer: buffer?,
            offset: offset_value?,
            other: other?,
            now: now.is_some(),
            other_offset: other_offset?,
            bytes: bytes?,
        });
    }
    if section.get("equals_f32").is_some() {
        let tolerance = tolerance(section, 1e-5);
        let values = values_f32(section, "equals_f32")?;
        return Some(Expectation::Floats {
            buffer: buffer?,
            offset: offset_value?,
            values,
            tolerance,
        });
    }
    let Some(value) = section.get("equals") else {
        section.problem(
            "an expected buffer needs one of: equals, equals_f32, same_as, same_as_now".into(),
        );
        return None;
    };
    let values = match value.get_ref().as_array() {
        Some(array) => {
            array.iter().map(|value| symbols.expr_of(value, &none())).collect::<Option<Vec<_>>>()
        }
        None => symbols.expr_of(value, &none()).map(|one| vec![one]),
    };
    Some(Expectation::Words { buffer: buffer?, offset: offset_value?, values: values? })
}

fn check(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expectation> {
    let tolerance = tolerance(section, 1e-4);
    let times = match section.get("times") {
        Some(value) => symbols.expr_of(value, &none())?,
        None => Expr::Number(1),
    };
    let (program, args) = arguments(symbols, &none(), section, "check")?;
    Some(Expectation::Check { program, args, times, tolerance })
}

fn picture(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expectation> {
    let buffer = symbols.reference(section.need("picture")?, &symbols.buffers, "buffer", &none());
    let distinct = symbols.constant_u32(section, "distinct").unwrap_or(2);
    let covered_permille = symbols.constant_u32(section, "covered_permille").unwrap_or(1);
    Some(Expectation::Picture { buffer: buffer?, distinct, covered_permille })
}

fn metric(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Expectation> {
    let metric = section.word("metric", &Metric::ALL.map(|(metric, name)| (name, metric)));
    let at_least = symbols.expr(section, "at_least", &none());
    let at_most = symbols.expr(section, "at_most", &none());
    let queues = queues(section, symbols);
    let (metric, queues) = (metric?, queues?);
    let needed = metric.queues_needed();
    if queues.len() < needed {
        let field = if needed == 1 { "queue" } else { "queues" };
        section.problem(format!("'{}' needs '{field}' with at least {needed}", metric.name()));
    }
    Some(Expectation::Metric { metric, queues, at_least, at_most })
}

fn queues(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Vec<QueueRef>> {
    if let Some(value) = section.get("queue") {
        return Some(vec![symbols.reference(value, &symbols.queues, "queue", &none())?]);
    }
    match section.array("queues") {
        None => Some(Vec::new()),
        Some(array) => array
            .iter()
            .map(|value| symbols.reference(value, &symbols.queues, "queue", &none()))
            .collect(),
    }
}
