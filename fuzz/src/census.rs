//! The numbers of objects of a machine, which an input must leave as they were.

use tidegate::Machine;

/// Numbers of objects of kernel, driver and hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    kernel: tidegate::dxgkrnl::Census,
    driver: [usize; 9],
    hardware: tidegate::softgpu::Census,
}

/// Most regions of memory that kernel and driver create on first use and keep, such as those of the
/// memory manager's context.
pub(crate) const KEPT_REGIONS: usize = 8;

impl Census {
    pub(crate) fn of(machine: &Machine) -> Census {
        Census {
            kernel: machine.adapter().census(),
            driver: machine.driver().census(),
            hardware: machine.gpu().census(),
        }
    }

    /// Returns how many regions of memory are kept since `before`.
    pub(crate) fn regions_since(self, before: &Census) -> usize {
        self.kernel.memory_regions.saturating_sub(before.kernel.memory_regions)
    }

    /// Returns the census but for summaries of doorbells, which a process keeps.
    pub(crate) fn without_groups(mut self) -> Census {
        self.hardware.doorbell_groups = 0;
        self
    }

    /// Returns the census with save areas placed as in `other`. An input that takes its share of
    /// local memory moves those of contexts that wait.
    fn placed_as(mut self, other: &Census) -> Census {
        self.kernel.local_context_allocations = other.kernel.local_context_allocations;
        self
    }

    /// Returns whether `after` an input, which began with `self`, no object is left of it but
    /// regions of memory.
    pub(crate) fn is_left_in(mut self, after: Census) -> bool {
        self.kernel.memory_regions = after.kernel.memory_regions;
        self.placed_as(&after) == after
    }

    /// Asserts that `after` an input, which began with `self`, nothing is left of it.
    /// `kept_regions` counts the regions that inputs of the machine have left.
    pub(crate) fn assert_left(mut self, after: Census, kept_regions: &mut usize) {
        let regions = &mut self.kernel.memory_regions;
        *kept_regions += after.kernel.memory_regions.saturating_sub(*regions);
        *regions = after.kernel.memory_regions;
        let before = self.placed_as(&after);
        assert_eq!(after, before, "nothing of the hostile process is left");
        assert!(*kept_regions <= KEPT_REGIONS, "{kept_regions} regions of memory are left");
    }
}
