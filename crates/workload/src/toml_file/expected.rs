//! `[[expect]]`: expected results. Exactly one of `fence`, `condition`, `buffer`, `check`,
//! `picture` and `metric` names the form.

use super::fields::Fields;
use super::names::{Symbols, Variables};
use super::objects::values_f32;
use super::operation::arguments;
use super::reader::{Section, suggest};
use crate::expect::{Clock, Expect, Expectation, Metric};
use crate::expression::Expr;
use crate::model::{QueueRef, Submission};

const KINDS: [&str; 6] = ["fence", "condition", "buffer", "check", "picture", "metric"];

/// Reads every `[[expect]]`.
pub fn read(top: &Section<'_, '_>, symbols: &Symbols<'_>) -> Vec<Expect> {
    let variables = &Variables::default();
    let tables = top.tables("expect");
    tables.iter().filter_map(|section| one(&Fields { section, symbols, variables })).collect()
}

fn one(fields: &Fields<'_>) -> Option<Expect> {
    let section = fields.section;
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| section.get(kind).is_some()).collect();
    let what = match given[..] {
        ["fence"] => fence(fields),
        ["condition"] => condition(fields),
        ["buffer"] => buffer(fields),
        ["check"] => check(fields),
        ["picture"] => picture(fields),
        ["metric"] => metric(fields),
        [] => {
            section.problem(format!("[[expect]] needs one of: {}", KINDS.join(", ")));
            return None;
        }
        [first, second, ..] => {
            section
                .problem(format!("one [[expect]] has '{first}' and '{second}'; split it in two"));
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
        match Submission::ALL.into_iter().find(|model| model.name() == word) {
            Some(submission) => under.push(submission),
            None => {
                let hint = suggest(word, Submission::ALL.map(Submission::name));
                let text = format!("'under' cannot hold {}{hint}", section.reader.source(value));
                section.reader.problem(value.span().start, text);
            }
        }
    }
    under
}

fn fence(fields: &Fields<'_>) -> Option<Expectation> {
    let (fence, value) = (fields.fence("fence"), fields.need_expr("value"));
    Some(Expectation::Fence { fence: fence?, value: value? })
}

fn condition(fields: &Fields<'_>) -> Option<Expectation> {
    let text = fields.section.need_string("condition")?;
    Some(Expectation::Condition { condition: fields.need_expr("condition")?, text })
}

fn tolerance(fields: &Fields<'_>, otherwise: f32) -> f32 {
    fields.section.float("tolerance").unwrap_or(otherwise)
}

fn buffer(fields: &Fields<'_>) -> Option<Expectation> {
    let section = fields.section;
    let (buffer, offset) = (fields.buffer("buffer"), fields.expr_or("offset", 0));
    let now = section.get("same_as_now").is_some();
    if now || section.get("same_as").is_some() {
        let other = fields.buffer(if now { "same_as_now" } else { "same_as" });
        let other_offset = fields.expr_or("same_as_offset", 0);
        let bytes = fields.need_expr("bytes");
        let (buffer, offset, other) = (buffer?, offset?, other?);
        let (other_offset, bytes) = (other_offset?, bytes?);
        return Some(Expectation::SameAs { buffer, offset, other, now, other_offset, bytes });
    }
    if section.get("equals_f32").is_some() {
        let tolerance = tolerance(fields, 1e-5);
        let values = values_f32(section, "equals_f32")?;
        let (buffer, offset) = (buffer?, offset?);
        return Some(Expectation::Floats { buffer, offset, values, tolerance });
    }
    let Some(value) = section.get("equals") else {
        section.problem(
            "an expected buffer needs one of: equals, equals_f32, same_as, same_as_now".into(),
        );
        return None;
    };
    let values: Option<Vec<Expr>> = match value.get_ref().as_array() {
        Some(array) => array.iter().map(|value| fields.value(value)).collect(),
        None => fields.value(value).map(|one| vec![one]),
    };
    Some(Expectation::Words { buffer: buffer?, offset: offset?, values: values? })
}

fn check(fields: &Fields<'_>) -> Option<Expectation> {
    let tolerance = tolerance(fields, 1e-4);
    let times = fields.expr_or("times", 1)?;
    let (program, args) = arguments(fields, "check")?;
    Some(Expectation::Check { program, args, times, tolerance })
}

fn picture(fields: &Fields<'_>) -> Option<Expectation> {
    let buffer = fields.buffer("picture");
    let number = |key| fields.symbols.constant_u32(fields.section, key);
    let distinct = number("distinct").unwrap_or(2);
    let covered_permille = number("covered_permille").unwrap_or(1);
    Some(Expectation::Picture { buffer: buffer?, distinct, covered_permille })
}

fn metric(fields: &Fields<'_>) -> Option<Expectation> {
    let section = fields.section;
    let metric = section.word("metric", &Metric::ALL.map(|metric| (metric.label(), metric)));
    let (at_least, at_most) = (fields.expr("at_least"), fields.expr("at_most"));
    let queues = queues(fields);
    let (metric, queues) = (metric?, queues?);
    let needed = metric.queues_needed();
    if queues.len() < needed {
        let field = if needed == 1 { "queue" } else { "queues" };
        section.problem(format!("'{}' needs '{field}' with at least {needed}", metric.label()));
    }
    Some(Expectation::Metric { metric, queues, at_least, at_most })
}

fn queues(fields: &Fields<'_>) -> Option<Vec<QueueRef>> {
    if fields.section.get("queue").is_some() {
        return Some(vec![fields.queue("queue")?]);
    }
    let Some(array) = fields.section.array("queues") else { return Some(Vec::new()) };
    let queue =
        |value| fields.symbols.reference(value, &fields.symbols.queues, "queue", fields.variables);
    array.iter().map(queue).collect()
}
