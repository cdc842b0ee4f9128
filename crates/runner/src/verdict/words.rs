//! The verdict of a comparison in sentences, with figures and reasons.

use super::{Account, Against, AtLength, ModelVerdict, Part, Verdict};
use crate::ranking::Relation;
use tidegate_trace::{duration, durations};

/// `1.497 → 1.147 ms`.
fn change(from_ns: u64, to_ns: u64) -> String {
    let both = durations(&[from_ns, to_ns]);
    let from = both[0].split(' ').next().unwrap_or_default();
    format!("{from} → {}", both[1])
}

/// Thousandths as a percentage without sign: whole from 10 % on, with one digit below.
pub fn percent(permille: i64) -> String {
    let permille = permille.unsigned_abs();
    match permille {
        0..100 => format!("{}.{} %", permille / 10, permille % 10),
        _ => format!("{} %", (permille + 5) / 10),
    }
}

impl Verdict {
    /// One sentence for each model, the baseline first.
    pub fn sentences(&self) -> Vec<String> {
        let Some(baseline) = self.models.first() else { return Vec::new() };
        let sentence = |model: &ModelVerdict| match &model.against {
            None => of_baseline(model),
            Some(against) => of_other(model, against, baseline),
        };
        self.models.iter().map(sentence).collect()
    }

    /// One sentence for each visible difference between the timelines of a model and the baseline.
    pub fn differences(&self) -> Vec<String> {
        let Some(baseline) = self.models.first() else { return Vec::new() };
        self.models[1..].iter().flat_map(|model| differences(model, baseline)).collect()
    }
}

/// `5.0 % faster at 2x, no difference at 10x`.
fn at_lengths(against: &Against) -> String {
    let at = |at: &AtLength| match relation_in_words(at.relation) {
        None => format!("no difference {}", at.place()),
        Some(faster) => format!("{} {faster} {}", percent(at.change_permille), at.place()),
    };
    against.lengths.iter().map(at).collect::<Vec<_>>().join(", ")
}

fn relation_in_words(relation: Relation) -> Option<&'static str> {
    match relation {
        Relation::Faster => Some("faster"),
        Relation::Slower => Some("slower"),
        Relation::NoDifference => None,
    }
}

fn of_baseline(model: &ModelVerdict) -> String {
    let mut clauses = vec![match &model.account {
        Some(account) => {
            format!("{}, {}", duration(model.makespan_ns), where_it_went(account, model))
        }
        None => duration(model.makespan_ns),
    }];
    clauses.push(format!(
        "{} kernel calls, {} interrupts, {} wake-ups",
        model.kernel_calls, model.interrupts, model.wake_ups
    ));
    if let Some(account) = &model.account {
        clauses.push(format!("{} of CPU in submission", duration(account.cpu_submission_ns)));
        if account.cpu_waiting_ns > 0 {
            clauses.push(format!("{} in waiting", duration(account.cpu_waiting_ns)));
        }
    }
    if model.start_up_ns > 0 {
        clauses.push(format!("start-up {}", duration(model.start_up_ns)));
    }
    clauses.extend(ring_space(model));
    format!("{}: {}", model.model, clauses.join("; "))
}

fn of_other(model: &ModelVerdict, against: &Against, baseline: &ModelVerdict) -> String {
    let both = durations(&[baseline.makespan_ns, model.makespan_ns]);
    let share = percent(against.change_permille);
    let accounts = model.account.as_ref().zip(baseline.account.as_ref());
    let change_ns = i128::from(model.steady_ns()) - i128::from(baseline.steady_ns());
    let because = accounts.map(|(own, base)| why(own, base, change_ns));
    let depends = against.depends_on_length();
    let has_start_up = baseline.start_up_ns + model.start_up_ns > 0;
    let than = format!("{}{}", baseline.model, if has_start_up { " in steady work" } else { "" });
    let verdict = match (relation_in_words(against.relation), because) {
        _ if against.mostly_start_up => {
            "mostly start-up, so too short to compare steady work".to_owned()
        }
        (None, _) if depends => {
            format!("no difference from {than} at this length; {}", at_lengths(against))
        }
        (None, _) => format!("no difference from {than}"),
        (Some(faster), _) if depends => format!(
            "{share} {faster} than {than} at this length, which is not a property of the model: {}",
            at_lengths(against)
        ),
        (Some(faster), None) => format!("{share} {faster} than {than}"),
        (Some(faster), Some(Some(why))) => format!("{share} {faster} than {than}: {why}"),
        (Some(_), Some(None)) => {
            let shorter = if change_ns < 0 { "shorter" } else { "longer" };
            format!(
                "no difference that a submission model makes: {share} {shorter} than {than}, without a change of launch \
                 or sync that explains it"
            )
        }
    };
    let mut clauses = vec![format!("{}, {verdict}", both[1])];
    if has_start_up {
        clauses.push(format!("start-up {}", change(baseline.start_up_ns, model.start_up_ns)));
    }
    let counted = [
        (baseline.kernel_calls, model.kernel_calls, "kernel calls"),
        (baseline.interrupts, model.interrupts, "interrupts"),
        (baseline.wake_ups, model.wake_ups, "wake-ups"),
    ];
    let changed = counted.iter().filter(|(from, to, _)| from != to);
    let changed: Vec<String> =
        changed.map(|(from, to, what)| format!("{from} → {to} {what}")).collect();
    clauses.push(if changed.is_empty() {
        "no change in kernel calls, interrupts and wake-ups".into()
    } else {
        changed.join(", ")
    });
    if let Some((own, base)) = accounts {
        clauses.push(format!(
            "{} of CPU in submission",
            change(base.cpu_submission_ns, own.cpu_submission_ns)
        ));
        if base.cpu_waiting_ns + own.cpu_waiting_ns > 0 {
            clauses.push(format!("{} in waiting", change(base.cpu_waiting_ns, own.cpu_waiting_ns)));
        }
        clauses.push(where_it_went(own, model));
    }
    clauses.extend(ring_space(model));
    if !against.mostly_start_up {
        clauses.extend(holds(against));
        clauses.extend(holds_at(against).filter(|_| !depends));
    }
    format!("{}: {}", model.model, clauses.join("; "))
}

/// `GPU-bound (GPU work 960 µs, launch 70 µs)`: the parts that are a twentieth of the makespan or
/// more, largest first, of steady work. A bound that is not the largest part has the share of the
/// busy engines.
fn where_it_went(account: &Account, model: &ModelVerdict) -> String {
    // Start-up has a separate clause.
    let shown = |(part, ns): &(Part, u64)| *ns > 0 && *part != Part::StartUp;
    let mut parts: Vec<(Part, u64)> = account.parts().into_iter().filter(shown).collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let bound = model.bound.unwrap_or_else(|| account.bound());
    let largest = parts.first().map(|(part, _)| *part);
    parts.retain(|(part, ns)| *part == bound || ns.saturating_mul(20) >= model.makespan_ns);
    let times = durations(&parts.iter().map(|(_, ns)| *ns).collect::<Vec<_>>());
    let each = parts.iter().zip(times).map(|((part, _), time)| format!("{} {time}", part.label()));
    let path = each.collect::<Vec<_>>().join(", ");
    if largest.is_none_or(|largest| largest == bound) {
        return format!("{} ({path})", bound.bound());
    }
    let busy_ns = match bound {
        Part::Gpu => account.busy.gpu_ns,
        Part::Copy => account.busy.copy_ns,
        _ => account.busy.any_ns,
    };
    let permille = u128::from(busy_ns) * 1_000 / u128::from(model.makespan_ns.max(1));
    let share = percent(i64::try_from(permille).unwrap_or(i64::MAX));
    let engines = match bound {
        Part::Gpu => "engines with GPU work",
        Part::Copy => "engines with copies",
        _ => "engines",
    };
    let of = if account.busy.gpus > 1 { " of the busiest GPU" } else { "" };
    format!("{} ({engines}{of} are busy for {share}; the critical path: {path})", bound.bound())
}

/// The parts that a submission model can change and that explain the change of the makespan: each
/// changed in its direction, by a fifth of it or more.
fn why(own: &Account, base: &Account, change_ns: i128) -> Option<String> {
    let of = |part: Part| (part, base.of(part), own.of(part));
    let mut changes: Vec<(Part, u64, u64)> =
        Part::ALL.into_iter().filter(|part| part.is_of_model()).map(of).collect();
    changes.retain(|(_, from, to)| {
        let by = i128::from(*to) - i128::from(*from);
        by.signum() == change_ns.signum() && by.abs() * 5 >= change_ns.abs()
    });
    changes.sort_by_key(|(_, from, to)| std::cmp::Reverse(from.abs_diff(*to)));
    let each =
        changes.iter().map(|(part, from, to)| format!("{} {}", part.label(), change(*from, *to)));
    let text = each.collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then_some(text)
}

fn ring_space(model: &ModelVerdict) -> Option<String> {
    model.rests_on_ring_space().then(|| {
        format!(
            "rings were full for {}, so some work was submitted late, as they drained (--ring-slots)",
            duration(model.ring_wait_ns)
        )
    })
}

fn holds(against: &Against) -> Option<String> {
    let (held, settings) = (against.held_on?, against.settings?);
    let not_on = match against.not_on.as_slice() {
        [] => String::new(),
        names => format!(", not with {}", names.join(", ")),
    };
    Some(format!("holds on {held} of {settings} cost settings{not_on}"))
}

/// The lengths with the relation of this one, and those without it.
fn holds_at(against: &Against) -> Option<String> {
    let places = |same: bool| {
        let of = against.lengths.iter().filter(|at| (at.relation == against.relation) == same);
        of.map(AtLength::place).collect::<Vec<_>>().join(" and ")
    };
    match (places(true), places(false)) {
        (same, other) if same.is_empty() && other.is_empty() => None,
        (same, other) if other.is_empty() => Some(format!("holds {same}")),
        (same, other) if same.is_empty() => Some(format!("does not hold {other}")),
        (same, other) => Some(format!("holds {same}, not {other}")),
    }
}

fn differences(model: &ModelVerdict, baseline: &ModelVerdict) -> Vec<String> {
    let mut lines = Vec::new();
    let (from, to) = (baseline.model, model.model);
    if let (Some(own), Some(base)) = (&model.account, &baseline.account) {
        let mut differ = |what: &str, base_ns: u64, own_ns: u64| {
            // Less than a hundredth of the run cannot be seen.
            if base_ns.abs_diff(own_ns).saturating_mul(100)
                >= baseline.makespan_ns.max(model.makespan_ns)
            {
                let both = durations(&[base_ns, own_ns]);
                lines.push(format!("{what} {} under {from} and {} under {to}", both[0], both[1]));
            }
        };
        differ("CPU threads wait for fences for", base.cpu_waiting_ns, own.cpu_waiting_ns);
        differ("calls that submit take the CPU", base.cpu_submission_ns, own.cpu_submission_ns);
        differ("ready work waits for its engine for", base.launch_ns, own.launch_ns);
        differ("the way from signals to their waiters takes", base.sync_ns, own.sync_ns);
        differ("copies on the critical path take", base.copy_ns, own.copy_ns);
    }
    if baseline.interrupts != model.interrupts {
        let (base, own) = (baseline.interrupts, model.interrupts);
        lines.push(format!(
            "the interrupt line rises {base} times under {from} and {own} times under {to}"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use crate::report::Report;
    use crate::verdict::judge;

    #[test]
    fn percentages_have_a_digit_where_they_are_small() {
        assert_eq!(
            [-234, 4, 99, 100, 1_000].map(percent),
            ["23 %", "0.4 %", "9.9 %", "10 %", "100 %"]
        );
    }

    fn accounts() -> [Option<Account>; 2] {
        let packet = Account {
            gpu_ns: 960_000,
            launch_ns: 300_000,
            sync_ns: 236_709,
            cpu_submission_ns: 181_000,
            cpu_waiting_ns: 92_000,
            ..Account::default()
        };
        let user = Account {
            gpu_ns: 960_000,
            launch_ns: 120_000,
            sync_ns: 66_730,
            cpu_submission_ns: 60_000,
            ..Account::default()
        };
        [Some(packet), Some(user)]
    }

    #[test]
    fn the_sentences_say_how_much_and_why() {
        let packet = run("packet", 1_496_709);
        let mut user = Report { kernel_calls: 2, ..run("user", 1_146_730) };
        user.machine.interrupts = 2;
        let verdict = judge(&[&packet, &user], &accounts(), None, None).unwrap();
        let [first, second] = &verdict.sentences()[..] else { panic!("two models, two sentences") };
        assert_eq!(
            first,
            "packet: 1.497 ms, GPU-bound (GPU work 960.0 µs, launch 300.0 µs, sync 236.7 µs); 141 kernel calls, \
             52 interrupts, 0 wake-ups; 181.0 µs of CPU in submission; 92.00 µs in waiting"
        );
        assert_eq!(
            second,
            "user: 1.147 ms, 23 % faster than packet: launch 300.0 → 120.0 µs, sync 236.7 → 66.7 µs; 141 → 2 kernel calls, \
             52 → 2 interrupts; 181.0 → 60.0 µs of CPU in submission; 92.00 → 0.00 µs in waiting; GPU-bound (GPU work \
             960.0 µs, launch 120.0 µs, sync 66.7 µs)"
        );
        assert_eq!(
            verdict.differences(),
            [
                "CPU threads wait for fences for 92.00 µs under packet and 0.00 µs under user",
                "calls that submit take the CPU 181.0 µs under packet and 60.0 µs under user",
                "ready work waits for its engine for 300.0 µs under packet and 120.0 µs under user",
                "the way from signals to their waiters takes 236.7 µs under packet and 66.7 µs under user",
                "the interrupt line rises 52 times under packet and 2 times under user",
            ]
        );
    }

    #[test]
    fn a_reason_is_a_part_that_a_model_can_change() {
        let packet = run("packet", 1_000_000);
        let user = run("user", 988_000);
        let said = |base: Account, own: Account| {
            let accounts = [Some(base), Some(own)];
            judge(&[&packet, &user], &accounts, None, None).unwrap().sentences().remove(1)
        };
        let of = |gpu_ns, idle_ns, launch_ns| Account {
            gpu_ns,
            idle_ns,
            launch_ns,
            ..Account::default()
        };
        // The path goes through other work.
        let other = said(of(637_000, 353_000, 10_000), of(303_000, 675_000, 10_000));
        assert!(
            other.starts_with("user: 0.988 ms, no difference that a submission model makes: 1.2 % shorter than packet"),
            "{other}"
        );
        let launch = said(of(900_000, 80_000, 20_000), of(900_000, 80_000, 8_000));
        assert!(launch.contains("1.2 % faster than packet: launch 20.00 → 8.00 µs;"), "{launch}");
        // A part that changed the other way explains nothing.
        let against = said(of(900_000, 92_000, 8_000), of(880_000, 88_000, 20_000));
        assert!(against.contains("no difference that a submission model makes"), "{against}");
    }

    #[test]
    fn a_bound_beside_the_path_says_how_busy_the_engines_are() {
        let mut account = Account { gpu_ns: 20_000, idle_ns: 980_000, ..Account::default() };
        account.busy.any_ns = 975_000;
        account.busy.gpu_ns = 975_000;
        let run = run("packet", 1_000_000);
        let said =
            judge(&[&run], &[Some(account.clone())], None, None).unwrap().sentences().remove(0);
        let wanted = "GPU-bound (engines with GPU work are busy for 98 %; the critical path: idle 980.0 µs, GPU work 20.0 µs)";
        assert!(said.contains(wanted), "{said}");
        account.busy.gpus = 2;
        let said = judge(&[&run], &[Some(account)], None, None).unwrap().sentences().remove(0);
        assert!(
            said.contains("engines with GPU work of the busiest GPU are busy for 98 %"),
            "{said}"
        );
    }

    #[test]
    fn ties_are_no_difference_and_ring_space_is_stated() {
        let packet = run("packet", 1_000_000);
        let user = Report { ring_wait_ns: 20_000, ..run("user", 999_000) };
        let said = judge(&[&packet, &user], &[], None, None).unwrap().sentences().remove(1);
        assert!(said.starts_with("user: 0.999 ms, no difference from packet;"), "{said}");
        assert!(said.contains("rings were full for 20.00 µs"), "{said}");
    }
}
