//! Barriers of lists, and the recording of resource uses for the state check.
//!
//! Each call records one engine barrier, regardless of the resources named: later commands begin
//! when earlier ones are complete (`decisions/0087`). Only the state check uses the names.

use super::recording::{CommandList, bad};
use crate::error::{Error, Result};
use crate::resource::Resource;
use crate::states::flags::ResourceStates;
use crate::states::policy;
use crate::states::recording::Subresources;
use crate::states::subresource::{BarrierPhase, Transition};
use crate::states::violation::CommandSite;
use tidegate_gpu_abi::Command;

const KIND: &str = "ResourceBarrier";

/// One barrier of [`CommandList::barrier`] (D3D12_RESOURCE_BARRIER).
#[derive(Clone, Copy, Debug)]
pub enum Barrier<'a> {
    /// The states of a resource change.
    Transition {
        /// The resource.
        resource: Resource<'a>,
        /// The subresource; `None` is all of them.
        subresource: Option<u32>,
        /// The states before the barrier.
        before: ResourceStates,
        /// The states after the barrier.
        after: ResourceStates,
        /// Whole, or one half of a split barrier.
        phase: BarrierPhase,
    },
    /// UNORDERED_ACCESS accesses before the barrier complete before those after it.
    UnorderedAccess {
        /// The resource; `None` is all of them.
        resource: Option<Resource<'a>>,
    },
    /// Heap memory passes from one placed resource to another.
    Aliasing {
        /// The placed resource that owned the memory; `None` is any.
        before: Option<Resource<'a>>,
        /// The placed resource that owns it afterwards; `None` is any.
        after: Option<Resource<'a>>,
    },
}

impl<'a> Barrier<'a> {
    /// Returns a transition of all subresources.
    #[doc(alias = "D3D12_RESOURCE_TRANSITION_BARRIER")]
    pub fn transition(
        resource: impl Into<Resource<'a>>,
        before: ResourceStates,
        after: ResourceStates,
    ) -> Barrier<'a> {
        let (resource, phase) = (resource.into(), BarrierPhase::Whole);
        Barrier::Transition { resource, subresource: None, before, after, phase }
    }

    /// Returns a UAV barrier of one resource.
    #[doc(alias = "D3D12_RESOURCE_UAV_BARRIER")]
    pub fn unordered_access(resource: impl Into<Resource<'a>>) -> Barrier<'a> {
        Barrier::UnorderedAccess { resource: Some(resource.into()) }
    }

    /// Returns an aliasing barrier between two placed resources.
    #[doc(alias = "D3D12_RESOURCE_ALIASING_BARRIER")]
    pub fn aliasing(
        before: impl Into<Resource<'a>>,
        after: impl Into<Resource<'a>>,
    ) -> Barrier<'a> {
        Barrier::Aliasing { before: Some(before.into()), after: Some(after.into()) }
    }

    /// Returns the same transition for one subresource.
    #[must_use]
    pub fn of_subresource(self, number: u32) -> Barrier<'a> {
        match self {
            Barrier::Transition { resource, before, after, phase, .. } => {
                Barrier::Transition { resource, subresource: Some(number), before, after, phase }
            }
            other => other,
        }
    }

    /// Returns the BEGIN_ONLY half of the transition.
    #[doc(alias = "D3D12_RESOURCE_BARRIER_FLAG_BEGIN_ONLY")]
    #[must_use]
    pub fn begin(self) -> Barrier<'a> {
        self.in_phase(BarrierPhase::Begin)
    }

    /// Returns the END_ONLY half of the transition.
    #[doc(alias = "D3D12_RESOURCE_BARRIER_FLAG_END_ONLY")]
    #[must_use]
    pub fn end(self) -> Barrier<'a> {
        self.in_phase(BarrierPhase::End)
    }

    fn in_phase(self, phase: BarrierPhase) -> Barrier<'a> {
        match self {
            Barrier::Transition { resource, subresource, before, after, .. } => {
                Barrier::Transition { resource, subresource, before, after, phase }
            }
            other => other,
        }
    }
}

impl CommandList {
    /// Records barriers as one command. All list types accept them. A transition may only name
    /// states that the list's type can set.
    ///
    /// # Errors
    /// [`Error::BadValue`] for states that do not combine or that the list's type cannot set, a
    /// subresource out of range, a transition of an upload or readback heap's resource, and
    /// aliasing of resources that are not placed; [`Error::Foreign`].
    #[doc(alias = "ResourceBarrier")]
    pub fn barrier(&mut self, barriers: &[Barrier<'_>]) -> Result<()> {
        barriers.iter().try_for_each(|barrier| self.check_barrier(barrier))?;
        if barriers.is_empty() {
            return Ok(());
        }
        let site = CommandSite::in_list(self.commands(), KIND);
        for barrier in barriers {
            for resource in resources(barrier) {
                self.name_resource(resource)?;
            }
            let Some(states) = self.states() else { continue };
            match *barrier {
                Barrier::Transition { resource, subresource, before, after, phase } => {
                    let which = subresource.map_or(Subresources::All, Subresources::One);
                    let transition = Transition { before, after, phase };
                    states.transition(resource.facts(), &which, transition, &site);
                }
                Barrier::UnorderedAccess { resource: Some(resource) } => {
                    let needed = ResourceStates::UNORDERED_ACCESS;
                    states.use_in(resource.facts(), &Subresources::All, needed, &site);
                }
                Barrier::UnorderedAccess { resource: None } => {}
                Barrier::Aliasing { before, after } => {
                    states.alias(before.map(Resource::facts), after.map(Resource::facts), &site);
                }
            }
        }
        // spec: ME-081
        self.push(&Command::Barrier)
    }

    fn check_barrier(&self, barrier: &Barrier<'_>) -> Result<()> {
        let Barrier::Transition { resource, subresource, before, after, .. } = *barrier else {
            return match barrier {
                Barrier::Aliasing { before, after } => {
                    [before, after].into_iter().flatten().try_for_each(|r| placed(*r))
                }
                _ => Ok(()),
            };
        };
        let facts = resource.facts();
        let refuse = |why| {
            let (what, list_type) = (resource.what(), self.list_type());
            let what =
                format!("a barrier of {what} from {before} to {after} in a {list_type} list");
            Err(Error::BadValue { what, why })
        };
        if !before.combine() || !after.combine() {
            return refuse("a write state stands alone; name one write, or reads only");
        }
        if before == after {
            return refuse("its states are the same; leave it out, or record a UAV barrier");
        }
        if facts.fixed {
            return refuse(
                "upload heaps stay in GENERIC_READ and readback heaps in COPY_DEST; leave it out",
            );
        }
        if !policy::settable(self.list_type()).contains(before | after) {
            return refuse("queues of this type set no such state; record it in a direct list");
        }
        if subresource.is_some_and(|number| number >= facts.subresources) {
            return refuse("the resource has no such subresource; count mips and slices from 0");
        }
        Ok(())
    }

    /// Records, for the state check, that the next command uses a resource.
    pub(super) fn access(
        &mut self,
        resource: Resource<'_>,
        which: &Subresources,
        states: ResourceStates,
        kind: &'static str,
    ) {
        let command = self.commands();
        if let Some(recording) = self.states() {
            let site = CommandSite::in_list(command, kind);
            recording.use_in(resource.facts(), which, states, &site);
        }
    }
}

/// Returns the resources that a barrier names.
fn resources<'a>(barrier: &Barrier<'a>) -> impl Iterator<Item = Resource<'a>> {
    let named = match *barrier {
        Barrier::Transition { resource, .. } => [Some(resource), None],
        Barrier::UnorderedAccess { resource } => [resource, None],
        Barrier::Aliasing { before, after } => [before, after],
    };
    named.into_iter().flatten()
}

fn placed(resource: Resource<'_>) -> Result<()> {
    if resource.facts().place.is_some() {
        return Ok(());
    }
    Err(bad("an aliasing barrier", "a committed resource shares its bytes with none; leave it out"))
}
