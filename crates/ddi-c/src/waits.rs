//! Waits of a driver, and what it does to the objects for which it waits.
//!
//! A mutex and a semaphore are taken with their event; what they count changes afterwards, under
//! the lock of the table. That lock is innermost and is not held in a wait.

use crate::host::Host;
use crate::rule::Rule;
use crate::waitable::{Kind, Waitable};
use std::collections::BTreeMap;
use tidegate_platform::level::{self, Level};
use tidegate_platform::{CpuTime, Event, Step, WaitEnd};

/// What a wait came to.
pub(crate) enum Waited {
    /// Index of the object that was taken; 0 after a wait for all.
    Done(usize),
    TimedOut,
    Stopped,
}

impl Host {
    fn add_waitable(&self, at: u64, manual_reset: bool, is_set: bool, kind: Kind) {
        let event = self.platform.event(manual_reset);
        if is_set {
            event.set(Step::ThreadWake);
        }
        self.waitables.lock().insert(at, Waitable { event, kind });
    }

    pub(crate) fn initialize_event(&self, at: u64, manual_reset: bool, is_set: bool) {
        self.add_waitable(at, manual_reset, is_set, Kind::Event);
    }

    pub(crate) fn initialize_semaphore(&self, at: u64, count: i32, limit: i32) {
        if limit <= 0 || count < 0 || count > limit {
            self.violation(
                Rule::Object,
                format!("KeInitializeSemaphore with the count {count} of {limit}"),
            );
        }
        self.add_waitable(at, false, count > 0, Kind::Semaphore { count, limit, waiting: 0 });
    }

    pub(crate) fn initialize_mutex(&self, at: u64) {
        self.add_waitable(at, false, true, Kind::Mutex { owner: 0, depth: 0 });
    }

    pub(crate) fn initialize_shared(&self, at: u64) {
        let kind = Kind::Shared { owner: 0, depth: 0, sharers: BTreeMap::new() };
        self.add_waitable(at, true, true, kind);
    }

    /// Calls `call` with an object. Records the call of `function` on memory that has none.
    fn with_waitable<R>(
        &self,
        at: u64,
        function: &str,
        call: impl FnOnce(&mut Waitable) -> R,
    ) -> Option<R> {
        let found = self.waitables.lock().get_mut(&at).map(call);
        if found.is_none() {
            self.violation(
                Rule::Object,
                format!("{function} of {at:#x}, which was not initialised"),
            );
        }
        found
    }

    pub(crate) fn event(&self, at: u64, function: &str) -> Option<Event> {
        self.with_waitable(at, function, |object| object.event.clone())
    }

    /// Sets an event. Returns whether it was set.
    pub(crate) fn set_event(&self, at: u64) -> bool {
        let Some(event) = self.event(at, "KeSetEvent") else { return false };
        let was_set = event.is_set();
        event.set(Step::ThreadWake);
        was_set
    }

    /// Clears an event. Returns whether it was set.
    pub(crate) fn clear_event(&self, at: u64) -> bool {
        let Some(event) = self.event(at, "KeClearEvent") else { return false };
        let was_set = event.is_set();
        event.reset();
        was_set
    }

    pub(crate) fn is_event_set(&self, at: u64) -> bool {
        self.event(at, "KeReadStateEvent").is_some_and(|event| event.is_set())
    }

    /// Returns the count of a semaphore, and 1 or 0 for another object that is free or not.
    pub(crate) fn state_of(&self, at: u64, function: &str) -> i32 {
        let state = self.with_waitable(at, function, |object| match object.kind {
            Kind::Semaphore { count, .. } => count,
            Kind::Mutex { depth, .. } => 1 - depth.cast_signed(),
            _ => i32::from(object.event.is_set()),
        });
        state.unwrap_or(0)
    }

    /// KeReleaseSemaphore. Returns the count before, or `None` above the limit.
    pub(crate) fn release_semaphore(&self, at: u64, by: i32) -> Option<i32> {
        let function = "KeReleaseSemaphore";
        let released = self.with_waitable(at, function, |object| match &mut object.kind {
            Kind::Semaphore { count, limit, waiting }
                if by > 0 && by <= *limit - (*count - *waiting).max(0) =>
            {
                *count += by;
                object.event.set(Step::ThreadWake);
                Some(*count - by)
            }
            _ => None,
        });
        if released == Some(None) {
            self.violation(
                Rule::Object,
                format!("{function} by {by}: above the limit, or not a semaphore"),
            );
        }
        released.flatten()
    }

    /// Releases a mutex. Returns how often its owner held it, or `None` if the caller does not own
    /// it.
    pub(crate) fn release_mutex(&self, at: u64, function: &str) -> Option<u32> {
        let caller = self.caller();
        let released = self.with_waitable(at, function, |object| match &mut object.kind {
            Kind::Mutex { owner, depth } if *owner == caller && *depth > 0 => {
                *depth -= 1;
                if *depth == 0 {
                    *owner = 0;
                    object.event.set(Step::ThreadWake);
                }
                Some(*depth + 1)
            }
            _ => None,
        });
        if released == Some(None) {
            self.violation(Rule::Owner, format!("{function}: the thread does not own the object"));
        }
        released.flatten()
    }

    /// Takes a mutex that has no second acquisition by its owner. Returns `false` if it has one, if
    /// `waits` is not set and it is not free, or if the machine stops.
    pub(crate) fn acquire_mutex(&self, at: u64, function: &str, waits: bool) -> bool {
        let caller = self.caller();
        let owned = self.with_waitable(at, function, |object| match object.kind {
            Kind::Mutex { owner, .. } => Some(owner == caller),
            _ => None,
        });
        match owned {
            None => return false,
            Some(None) => {
                self.violation(
                    Rule::Object,
                    format!("{function} of an object that is not a mutex"),
                );
                return false;
            }
            Some(Some(true)) => {
                if waits {
                    self.violation(
                        Rule::Owner,
                        format!("{function}: the thread owns the mutex, and waits for itself"),
                    );
                }
                return false;
            }
            Some(Some(false)) => {}
        }
        let units = (!waits).then_some(0);
        matches!(self.wait_for(&[at], false, units, function), Waited::Done(_))
    }

    /// Takes a lock with shared owners. Returns `false` if it is not free and `waits` is not set,
    /// or if the machine stops.
    pub(crate) fn acquire_shared(
        &self,
        at: u64,
        function: &str,
        exclusive: bool,
        recursive: bool,
        waits: bool,
    ) -> bool {
        let caller = self.caller();
        loop {
            let taken = self.with_waitable(at, function, |object| {
                let Kind::Shared { owner, depth, sharers } = &mut object.kind else {
                    return Err("of an object of another kind");
                };
                let owns = *owner == caller && *depth > 0;
                let shares = sharers.contains_key(&caller);
                if (owns || shares) && (!recursive || (exclusive && shares)) && waits {
                    return Err("by a thread that has it, and waits for itself");
                }
                let others = sharers.len() > usize::from(shares);
                let free = *depth == 0 && (!exclusive || !others && !shares);
                if owns && recursive {
                    *depth += 1;
                } else if free && exclusive {
                    (*owner, *depth) = (caller, 1);
                } else if free {
                    *sharers.entry(caller).or_default() += 1;
                } else {
                    object.event.reset();
                    return Ok(None);
                }
                Ok(Some(object.event.clone()))
            });
            match taken {
                None => return false,
                Some(Err(what)) => {
                    self.violation(Rule::Object, format!("{function} {what}"));
                    return false;
                }
                Some(Ok(Some(_))) => return true,
                Some(Ok(None)) if !waits => return false,
                Some(Ok(None)) => {}
            }
            let Some(event) = self.event(at, function) else { return false };
            if event.wait_for(None, "a lock of the driver") == WaitEnd::Stopped {
                self.end_stopped_thread();
                return false;
            }
        }
    }

    /// Returns whether the caller owns the lock exclusively (2), shares it (1), or has it not (0).
    pub(crate) fn owns_shared(&self, at: u64, function: &str) -> u32 {
        let caller = self.caller();
        let owns = self.with_waitable(at, function, |object| match &object.kind {
            Kind::Shared { owner, depth, .. } if *owner == caller && *depth > 0 => 2,
            Kind::Shared { sharers, .. } if sharers.contains_key(&caller) => 1,
            _ => 0,
        });
        owns.unwrap_or(0)
    }

    pub(crate) fn release_shared(&self, at: u64, function: &str) {
        let caller = self.caller();
        let released = self.with_waitable(at, function, |object| {
            let Kind::Shared { owner, depth, sharers } = &mut object.kind else { return false };
            if *owner == caller && *depth > 0 {
                *depth -= 1;
            } else if let Some(times) = sharers.get_mut(&caller) {
                *times -= 1;
                if *times == 0 {
                    sharers.remove(&caller);
                }
            } else {
                return false;
            }
            if *depth == 0 {
                object.event.set(Step::ThreadWake);
            }
            true
        });
        if released == Some(false) {
            self.violation(Rule::Owner, format!("{function}: the thread does not own the object"));
        }
    }

    /// Removes an object that is deleted. Records it if a thread owns it.
    pub(crate) fn delete_waitable(&self, at: u64, function: &str) {
        let removed = self.waitables.lock().remove(&at);
        let owned = removed.as_ref().map(|object| match &object.kind {
            Kind::Shared { depth, sharers, .. } => *depth > 0 || !sharers.is_empty(),
            Kind::Mutex { depth, .. } => *depth > 0,
            _ => false,
        });
        match owned {
            None => {
                self.violation(
                    Rule::Object,
                    format!("{function} of {at:#x}, which was not initialised"),
                );
            }
            Some(true) => {
                self.violation(Rule::Owner, format!("{function} of an object that a thread owns"))
            }
            Some(false) => {}
        }
    }

    /// Waits for one or all of several objects, for units of 100 ns.
    pub(crate) fn wait_for(
        &self,
        objects: &[u64],
        all: bool,
        units: Option<u64>,
        function: &str,
    ) -> Waited {
        let caller = self.caller();
        // A mutex that the caller owns is free for it.
        let mut events = Vec::new();
        let mut owned = None;
        for (index, at) in objects.iter().enumerate() {
            let found = self.with_waitable(*at, function, |object| {
                let is_owned = matches!(object.kind,
                    Kind::Mutex { owner, depth } if owner == caller && depth > 0);
                (object.event.clone(), is_owned)
            });
            match found {
                None => return Waited::Done(0),
                Some((_, true)) => owned = owned.or(Some(index)),
                Some((event, false)) => events.push((index, *at, event)),
            }
        }
        if let (Some(index), false) = (owned, all) {
            self.taken(objects[index], caller);
            return Waited::Done(index);
        }
        let deadline = units.map(|units| self.platform.now().after(units.saturating_mul(100)));
        self.count_waiting(objects, 1);
        let waited = loop {
            let taken = match self.wait_for_events(&events, all, units == Some(0), deadline) {
                Ok(taken) => taken,
                Err(WaitEnd::Stopped) => break Waited::Stopped,
                Err(_) => break Waited::TimedOut,
            };
            // Another thread may have had the last permit since the event was set.
            if all {
                match objects.iter().position(|at| !self.taken(*at, caller)) {
                    None => break Waited::Done(0),
                    Some(missing) => {
                        objects[..missing].iter().for_each(|at| self.untake(*at, caller));
                        objects[missing + 1..].iter().for_each(|at| self.free_again(*at));
                    }
                }
            } else {
                let (index, at, _) = events[taken];
                if self.taken(at, caller) {
                    break Waited::Done(index);
                }
            }
        };
        self.count_waiting(objects, -1);
        if matches!(waited, Waited::Stopped) {
            self.end_stopped_thread();
        }
        waited
    }

    /// Counts a thread that waits for semaphores.
    fn count_waiting(&self, objects: &[u64], by: i32) {
        let mut waitables = self.waitables.lock();
        for at in objects {
            if let Some(Waitable { kind: Kind::Semaphore { waiting, .. }, .. }) =
                waitables.get_mut(at)
            {
                *waiting += by;
            }
        }
    }

    /// Gives back an object of a wait for all that was not complete.
    fn untake(&self, at: u64, caller: u64) {
        if let Some(Waitable { kind, .. }) = self.waitables.lock().get_mut(&at) {
            match kind {
                Kind::Semaphore { count, .. } => *count += 1,
                Kind::Mutex { owner, depth } if *owner == caller => *depth -= 1,
                _ => {}
            }
        }
        self.free_again(at);
    }

    /// Sets the event of an object that is free, after a wait has cleared it.
    fn free_again(&self, at: u64) {
        let waitables = self.waitables.lock();
        let Some(Waitable { event, kind }) = waitables.get(&at) else { return };
        let is_free = match kind {
            Kind::Semaphore { count, .. } => *count > 0,
            Kind::Mutex { depth, .. } => *depth == 0,
            _ => true,
        };
        if is_free {
            event.set(Step::ThreadWake);
        }
    }

    /// Returns the place of the event that was taken, or 0 after a wait for all.
    fn wait_for_events(
        &self,
        events: &[(usize, u64, Event)],
        all: bool,
        is_poll: bool,
        deadline: Option<CpuTime>,
    ) -> Result<usize, WaitEnd> {
        let refs: Vec<&Event> = events.iter().map(|(_, _, event)| event).collect();
        let what = "an object of the driver";
        if refs.is_empty() {
            return Ok(0);
        }
        if is_poll && (!all || level::current() > Level::Passive) {
            if !all {
                return refs.iter().position(|event| event.try_take()).ok_or(WaitEnd::TimedOut);
            }
            // Above PASSIVE level a wait for all cannot block.
            let taken: Vec<&&Event> = refs.iter().take_while(|event| event.try_take()).collect();
            if taken.len() == refs.len() {
                return Ok(0);
            }
            taken.iter().for_each(|event| event.set(Step::ThreadWake));
            return Err(WaitEnd::TimedOut);
        }
        if all {
            return match Event::wait_all(&refs, deadline, what) {
                WaitEnd::Woken => Ok(0),
                end => Err(end),
            };
        }
        match refs[..] {
            [event] => match event.wait_for(deadline, what) {
                WaitEnd::Woken => Ok(0),
                end => Err(end),
            },
            _ => Event::wait_any_for(&refs, deadline, what),
        }
    }

    /// Updates what a mutex or a semaphore counts, after its event was taken. Returns whether the
    /// object is the caller's.
    fn taken(&self, at: u64, caller: u64) -> bool {
        let mut waitables = self.waitables.lock();
        let Some(Waitable { event, kind }) = waitables.get_mut(&at) else { return true };
        match kind {
            Kind::Semaphore { count: 0, .. } => return false,
            Kind::Semaphore { count, .. } => {
                *count -= 1;
                if *count > 0 {
                    event.set(Step::ThreadWake);
                }
            }
            Kind::Mutex { owner, depth } => {
                *owner = caller;
                *depth += 1;
            }
            _ => {}
        }
        true
    }
}
