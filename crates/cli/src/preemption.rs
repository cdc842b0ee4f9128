//! Flags of preemption and recovery: granularities, delays, injected hangs. The workload check
//! finds hangs of unknown queues.

use clap::Args;
use std::str::FromStr;
use tidegate::PreemptionChoice;
use tidegate::runner::HangAt;

/// Options of preemption and recovery.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Preempting {
    /// Preemption granularity of engines: compute=none, dma-buffer, dispatch, thread-group, thread
    /// or shader; graphics=none, dma-buffer, primitive, triangle, pixel or shader; one of them, or
    /// both with a comma (default: the adapter's, mostly thread-group and triangle)
    #[arg(long, value_name = "KIND=GRANULARITY", value_parser = preemption)]
    pub(crate) preemption: Option<PreemptionChoice>,
    /// Time that the GPU may take to preempt its work before it counts as hung: a number with the
    /// unit ns, us, ms or s (default: 2s)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) tdr_delay: Option<Time>,
    /// Hang the Nth submission of a queue before its first command, to show the recovery; the
    /// device is lost, so the run ends with exit code 1. Can be given several times
    #[arg(long, value_name = "hang:QUEUE@N", value_parser = injection)]
    pub(crate) inject: Vec<HangAt>,
}

/// A duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) ns: u64,
}

/// `compute=G`, `graphics=G`, or both with a comma between.
fn preemption(word: &str) -> Result<PreemptionChoice, String> {
    let mut choice = PreemptionChoice::default();
    for part in word.split(',') {
        let (kind, granularity) = part.split_once('=').ok_or_else(|| {
            format!("'{part}' has no '='; write compute=thread-group,graphics=primitive")
        })?;
        match kind {
            "compute" => set(&mut choice.compute, kind, granularity)?,
            "graphics" => set(&mut choice.graphics, kind, granularity)?,
            _ => {
                return Err(format!(
                    "no kind of work is called '{kind}'; there are compute and graphics"
                ));
            }
        }
    }
    Ok(choice)
}

fn set<G: FromStr<Err = String>>(
    place: &mut Option<G>,
    kind: &str,
    granularity: &str,
) -> Result<(), String> {
    match place.replace(granularity.parse()?) {
        None => Ok(()),
        Some(_) => Err(format!("{kind} is given twice; give it once")),
    }
}

/// A whole number with a unit.
pub(crate) fn time(word: &str) -> Result<Time, String> {
    let digits = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let scale = match &word[digits.len()..] {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err("give a time with its unit, such as 500ms, 2s or 100us".to_owned()),
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)) {
        Some(0) => Err("a delay of 0 is too short; give 1us or more".to_owned()),
        Some(ns) => Ok(Time { ns }),
        None => Err("give a whole number with its unit, such as 500ms, 2s or 100us".to_owned()),
    }
}

/// `hang:QUEUE@N`; a queue's name may have a colon or an at sign in it.
fn injection(word: &str) -> Result<HangAt, String> {
    let form = "use hang:QUEUE@N, such as hang:render@3 for the third submission of queue 'render'";
    let what = word.strip_prefix("hang:").ok_or(form)?;
    let (queue, submission) = what.rsplit_once('@').ok_or(form)?;
    match submission.parse::<u64>() {
        Ok(0) => Err("submissions are counted from 1; give 1 or more".to_owned()),
        Ok(submission) if !queue.is_empty() => Ok(HangAt { queue: queue.to_owned(), submission }),
        _ => Err(form.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::d3dukmdt::{ComputePreemption, GraphicsPreemption};

    #[test]
    fn granularities_are_read_by_name_and_refused_by_name() {
        let both = preemption("compute=thread-group,graphics=primitive").unwrap();
        assert_eq!(both.compute, Some(ComputePreemption::ThreadGroup));
        assert_eq!(both.graphics, Some(GraphicsPreemption::Primitive));
        let one = preemption("graphics=none").unwrap();
        assert_eq!((one.compute, one.graphics), (None, Some(GraphicsPreemption::None)));
        let error = |word| preemption(word).unwrap_err();
        assert!(error("compute=warp").contains("thread-group"));
        assert!(error("copy=none").contains("compute and graphics"));
        assert!(error("thread-group").contains("compute=thread-group"));
        assert!(error("compute=none,compute=thread").contains("twice"));
        assert!(error("").contains('='));
    }

    #[test]
    fn times_have_units() {
        let ns = |word| time(word).map(|t| t.ns);
        assert_eq!(
            ["7ns", "3us", "500ms", "2s"].map(ns),
            [7, 3_000, 500_000_000, 2_000_000_000].map(Ok)
        );
        for word in ["", "5", "ms", "-1s", "1.5s", "2 s", "3min", "0ms", "99999999999999999999s"] {
            assert!(time(word).is_err(), "{word}");
        }
    }

    #[test]
    fn hangs_name_a_queue_and_a_submission() {
        let at = |queue: &str, submission| Ok(HangAt { queue: queue.to_owned(), submission });
        assert_eq!(injection("hang:render@3"), at("render", 3));
        assert_eq!(injection("hang:a:b@c@12"), at("a:b@c", 12));
        for word in [
            "render@3",
            "hang:render",
            "hang:@1",
            "hang:render@",
            "hang:render@x",
            "hang:render@0",
            "",
        ] {
            assert!(injection(word).is_err(), "{word}");
        }
    }
}
