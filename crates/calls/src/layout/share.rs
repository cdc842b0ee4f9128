//! Owns the arguments of D3DKMTShareObjects, which come one by one and not in a structure.

use crate::Status;
use tidegate_d3dukmdt::layout::{MAX_OBJECTS_PER_HANDLE, SyncObjectAccess, is_an_array};

/// Every right that the object has, as callers who do not care ask for it.
const GENERIC_ALL: u32 = 0x1000_0000;

/// How many handles stand at `handles_address`, and what the holder of the NT handle may do.
///
/// Errors: INVALID_PARAMETER for none, for more than three objects and for rights that do not
/// exist.
// spec: MF-087
#[doc(alias = "D3DKMTShareObjects")]
pub fn share_objects(
    object_count: u32,
    handles_address: u64,
    desired_access: u32,
) -> Result<(usize, SyncObjectAccess), Status> {
    let count = is_an_array(handles_address, object_count, MAX_OBJECTS_PER_HANDLE)?;
    let access = if desired_access == GENERIC_ALL {
        SyncObjectAccess::ALL
    } else {
        SyncObjectAccess::from_bits(desired_access).ok_or(Status::INVALID_PARAMETER)?
    };
    Ok((count, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: MF-087
    #[test]
    fn one_to_three_objects_are_shared_with_rights_that_exist() {
        assert_eq!(share_objects(1, 8, 1), Ok((1, SyncObjectAccess::WAIT)));
        assert_eq!(share_objects(3, 8, 0x001F_0003), Ok((3, SyncObjectAccess::ALL)));
        assert_eq!(share_objects(3, 8, GENERIC_ALL), Ok((3, SyncObjectAccess::ALL)));
        for (count, address, access) in [(0, 8, 1), (4, 8, 1), (1, 0, 1), (1, 8, 4)] {
            assert_eq!(share_objects(count, address, access), Err(Status::INVALID_PARAMETER));
        }
    }
}
