//! The clauses of each family: a table, and a walk over the journal that checks them.

mod capabilities;
mod display;
mod life;
mod packets;
mod paging;
mod power;
mod preemption;
mod queues;
mod recovery;
mod statuses;
mod work;

use crate::clause::Clause;
use crate::tally::Tally;

/// Returns all clauses, by family.
pub fn clauses() -> impl Iterator<Item = &'static Clause> {
    let capabilities = capabilities::RULES.iter().map(|rule| &rule.clause);
    let statuses = statuses::RULES.iter().map(|rule| &rule.clause);
    let others = [
        &packets::CLAUSES[..],
        &preemption::CLAUSES,
        &recovery::CLAUSES,
        &queues::CLAUSES,
        &paging::CLAUSES,
        &display::CLAUSES,
        &power::CLAUSES,
        &life::CLAUSES,
    ];
    capabilities.chain(statuses).chain(others.into_iter().flatten())
}

/// Judges every clause from the journal of the tally.
pub(crate) fn judge(tally: &mut Tally<'_>) {
    capabilities::judge(tally);
    statuses::judge(tally);
    work::judge(tally);
    packets::judge_interrupts(tally);
    recovery::judge(tally);
    queues::judge(tally);
    display::judge(tally);
    power::judge(tally);
    life::judge(tally);
    // Last: it takes wrong results that nothing else explains.
    paging::judge(tally);
}

/// An id that is unknown, or of a clause without a twin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no clause with a planted mistake is called '{0}': `tidegate conform --list` lists all")]
pub struct UnknownClause(pub String);

/// Returns the clause of an id.
///
/// # Errors
/// The id is unknown, or its clause has no twin.
pub fn clause(id: &str) -> Result<&'static Clause, UnknownClause> {
    clauses().find(|clause| clause.id == id).ok_or_else(|| UnknownClause(id.to_owned()))
}
