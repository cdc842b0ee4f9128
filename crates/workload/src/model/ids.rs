//! Ids of the objects of a workload, and places in its file.

/// Index into [`super::Workload::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);
/// Index into [`super::Workload::queues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);
/// Index into [`super::Workload::fences`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FenceId(pub u32);

/// An id that can be in a group.
pub trait GroupMember: Copy {
    /// The member `k` places after this one.
    fn offset(self, k: u32) -> Self;
}
impl GroupMember for BufferId {
    fn offset(self, k: u32) -> Self {
        Self(self.0 + k)
    }
}
impl GroupMember for QueueId {
    fn offset(self, k: u32) -> Self {
        Self(self.0 + k)
    }
}
impl GroupMember for FenceId {
    fn offset(self, k: u32) -> Self {
        Self(self.0 + k)
    }
}

/// Place in the workload's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Line from 1; 0 for imported work, which has no line.
    pub line: u32,
    /// Column in characters from 1.
    pub column: u32,
}
