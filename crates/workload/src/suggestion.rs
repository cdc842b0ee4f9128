//! The known name that is nearest to a wrong one, for error messages.

/// Returns the member of `known` that `wrong` most likely means; `None` if none is near.
pub fn nearest_name<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let nearest = known.iter().map(|name| (strsim::osa_distance(wrong, name), *name)).min()?;
    (nearest.0 <= 1 + wrong.chars().count() / 4).then_some(nearest.1)
}
