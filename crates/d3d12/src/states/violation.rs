//! Violations of the state rules: typed data and the message text.

use crate::states::flags::ResourceStates;
use crate::states::policy::{ResourceKind, TypeClass};
use std::fmt;
use std::sync::Arc;

/// A recorded command: its list, its number in the list, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSite {
    /// The queue that executes it; `None` if only the list was checked.
    pub queue: Option<Arc<str>>,
    /// The list's name, if it has one.
    pub list: Option<Arc<str>>,
    /// The command's number in its list, from 0.
    pub command: u32,
    /// The command's official name.
    pub kind: &'static str,
}

impl CommandSite {
    pub(crate) fn in_list(command: u32, kind: &'static str) -> CommandSite {
        CommandSite { queue: None, list: None, command, kind }
    }
}

impl fmt::Display for CommandSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {} ({})", self.command, self.kind)?;
        match &self.list {
            Some(list) => write!(f, " of list '{list}'")?,
            None => f.write_str(" of a list without a name")?,
        }
        match &self.queue {
            Some(queue) => write!(f, " on queue '{queue}'"),
            None => Ok(()),
        }
    }
}

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateRule {
    /// The state set by a barrier does not permit the use.
    WrongState,
    /// The state belongs to the other queue type class.
    WrongClass,
    /// A resource of this kind is not promoted from COMMON to this state.
    NotPromoted,
    /// The resource was promoted to another state, so this use needs a barrier.
    NeedsBarrier,
    /// A barrier's StateBefore is not the state of the resource.
    WrongStateBefore,
    /// The resource is used or transitioned between the halves of a split barrier.
    SplitPending,
    /// END_ONLY without the matching BEGIN_ONLY, or with other states.
    SplitUnmatched,
    /// The use conflicts with the fixed state of an upload or readback heap.
    FixedState,
    /// Two queues use the resource, one of them writes or changes its state, and no fence orders
    /// them.
    Unordered,
    /// A placed resource is used while another one owns its memory.
    Aliased,
    /// A back buffer is presented in a state other than COMMON.
    PresentState,
}

/// The fence signal and wait whose absence causes a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFence {
    /// The queue that must signal after the earlier command.
    pub signal: Arc<str>,
    /// The queue that must wait before the later command.
    pub wait: Arc<str>,
}

/// A use of a resource that violates the state rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateViolation {
    /// The rule.
    pub rule: StateRule,
    /// The resource.
    pub resource: String,
    /// Buffer or texture.
    pub kind: ResourceKind,
    /// The subresource.
    pub subresource: u32,
    /// The states that the command needs, or that the barrier names.
    pub needed: ResourceStates,
    /// The actual states of the resource.
    pub found: ResourceStates,
    /// The queue type class that the actual states belong to.
    pub class: TypeClass,
    /// The command.
    pub command: CommandSite,
    /// The earlier command that set the state or uses the resource concurrently.
    pub earlier: Option<CommandSite>,
    /// The other placed resource, for [`StateRule::Aliased`].
    pub other: Option<String>,
    /// The missing fence edge, if that is the cause.
    pub missing_fence: Option<MissingFence>,
}

impl StateViolation {
    fn next_step(&self) -> &'static str {
        match self.rule {
            StateRule::WrongState | StateRule::NotPromoted | StateRule::NeedsBarrier => {
                "record a barrier to that state before the command"
            }
            StateRule::WrongClass => {
                "return it to COMMON on a queue of that class first, and wait for a fence of it"
            }
            StateRule::WrongStateBefore => "name that state as the barrier's state before",
            StateRule::SplitPending => "record the barrier's END_ONLY half first",
            StateRule::SplitUnmatched => {
                "record a BEGIN_ONLY half with the same states, and end it once"
            }
            StateRule::FixedState => {
                "an upload heap stays in GENERIC_READ and a readback heap in COPY_DEST: use a \
                 resource of the default heap"
            }
            StateRule::Unordered => "order the two queues with a fence",
            StateRule::Aliased => "record an aliasing barrier from that resource to this one",
            StateRule::PresentState => "transition it to PRESENT (COMMON) before the present",
        }
    }
}

impl fmt::Display for StateViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, needed, found) = (&self.resource, self.needed, self.found);
        write!(f, "{} '{resource}' subresource {}: ", self.kind.name(), self.subresource)?;
        write!(f, "{} needs {needed}", self.command)?;
        match self.rule {
            StateRule::Unordered => f.write_str(" without an order")?,
            StateRule::Aliased => {
                let other = self.other.as_deref().unwrap_or("another resource");
                write!(f, ", but its bytes belong to '{other}'")?;
            }
            _ => {
                write!(f, ", but it is in {found}")?;
                if found.intersects(ResourceStates::COPIES) || self.rule == StateRule::WrongClass {
                    write!(f, " of the {} class", self.class)?;
                }
            }
        }
        if let Some(earlier) = &self.earlier {
            let link = if self.rule == StateRule::Unordered { " with" } else { " since" };
            write!(f, "{link} {earlier}")?;
        }
        if let Some(MissingFence { signal, wait }) = &self.missing_fence {
            write!(f, "; no fence is signalled by '{signal}' after it and waited for by '{wait}'")?;
        }
        write!(f, "; {}", self.next_step())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rule: StateRule) -> StateViolation {
        StateViolation {
            rule,
            resource: "heap of trees".to_owned(),
            kind: ResourceKind::Texture,
            subresource: 2,
            needed: ResourceStates::COPY_SOURCE,
            found: ResourceStates::RENDER_TARGET,
            class: TypeClass::Video,
            command: CommandSite::in_list(3, "Draw"),
            earlier: None,
            other: None,
            missing_fence: None,
        }
    }

    /// The next step is what an application can do about it.
    #[test]
    fn each_rule_has_its_own_next_step() {
        use StateRule::*;
        for (rules, step) in [
            (&[WrongState, NotPromoted, NeedsBarrier][..], "record a barrier to that state before"),
            (&[WrongClass], "return it to COMMON on a queue of that class first"),
            (&[WrongStateBefore], "name that state as the barrier's state before"),
            (&[SplitPending], "record the barrier's END_ONLY half first"),
            (&[SplitUnmatched], "record a BEGIN_ONLY half with the same states"),
            (&[FixedState], "use a resource of the default heap"),
            (&[Unordered], "order the two queues with a fence"),
            (&[Aliased], "record an aliasing barrier from that resource to this one"),
            (&[PresentState], "transition it to PRESENT (COMMON) before the present"),
        ] {
            for rule in rules {
                let text = of(*rule).to_string();
                assert!(text.contains(step), "{rule:?}: {text}");
                assert!(text.contains("texture 'heap of trees' subresource 2"), "{text}");
            }
        }
        let of_class = of(WrongClass).to_string();
        assert!(of_class.contains("of the video class"), "{of_class}");
        let unnamed = of(Aliased).to_string();
        assert!(unnamed.contains("its bytes belong to 'another resource'"), "{unnamed}");
        let named = StateViolation { other: Some("rocks".to_owned()), ..of(Aliased) }.to_string();
        assert!(named.contains("its bytes belong to 'rocks'"), "{named}");
    }
}
