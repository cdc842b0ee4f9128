//! The clauses of each family: a table, and a walk over the events of a run that checks them.

mod capabilities;
mod display;
mod life;
mod packets;
mod paging;
mod power;
mod preemption;
mod queues;
mod recent;
mod recovery;
mod statuses;
mod work;

use crate::clause::Clause;
use crate::walk::Walk;

/// Returns all clauses, by family.
pub fn clauses() -> impl Iterator<Item = &'static Clause> {
    let capabilities = capabilities::RULES.iter().map(|rule| &rule.clause);
    let statuses = statuses::RULES.iter().map(|rule| &rule.clause);
    let others = [
        &capabilities::OTHERS[..],
        &packets::CLAUSES,
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

/// Returns the walks that judge every clause.
pub(crate) fn walks() -> Vec<Box<dyn Walk>> {
    vec![
        Box::new(capabilities::Walk),
        Box::new(statuses::Walk),
        Box::<work::Walk>::default(),
        Box::<packets::Interrupts>::default(),
        Box::<recovery::Walk>::default(),
        Box::<queues::Walk>::default(),
        Box::<display::Walk>::default(),
        Box::<power::Walk>::default(),
        Box::<life::Walk>::default(),
        // Last: it takes wrong results that nothing else explains.
        Box::<paging::Walk>::default(),
    ]
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
