//! Functions of features: those of the driver (GUID_WDDM_INTERFACE_FEATURE), and those of the
//! kernel (DxgkServicesFeature).

use super::entries::{Entries, place};
use super::table::HostContext;
use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::{self, with_exposed_provenance};
use tidegate_ddi::feature::KernelFeatureTable;
use tidegate_ddi::{DdiVersion, EntryGroup, FeatureId, Status};
use tidegate_wddm_abi::d3dkmddi::{
    DriverFeatureInterface, FEATURE_INTERFACE_GUID, FEATURE_INTERFACE_VERSION, IsFeatureEnabled,
    IsFeatureEnabled2, KernelFeatureInterface, QueryFeatureInterface,
    QueryFeatureInterfaceCallback, QueryFeatureSupport, QueryInterface, SERVICES_FEATURE,
};
use tidegate_wddm_abi::d3dukmdt::IsFeatureEnabledResult;

/// PINTERFACE_REFERENCE and PINTERFACE_DEREFERENCE
type Reference = unsafe extern "C-unwind" fn(u64);
/// DXGKDDI_QUERYFEATURESUPPORT
type Support = unsafe extern "C-unwind" fn(u64, &mut QueryFeatureSupport) -> i32;
/// DXGKDDI_QUERYFEATUREINTERFACE
type Table = unsafe extern "C-unwind" fn(u64, &mut QueryFeatureInterface) -> i32;
type Handle = *const HostContext;

/// The driver's functions. Its code outlives them.
pub(crate) struct DriverFeatures(DriverFeatureInterface);

impl DriverFeatures {
    /// Queries the interface (DxgkDdiQueryInterface). `None` from a driver of an older version, or
    /// without it.
    pub(crate) fn query(entries: &Entries, adapter: u64) -> Option<DriverFeatures> {
        let (major, minor) = entries.version.wddm;
        let is_known = DdiVersion::wddm(major, minor) >= EntryGroup::Features.since();
        if !is_known || !entries.has(place::QUERY_INTERFACE) {
            return None;
        }
        let size = size_of::<DriverFeatureInterface>() as u16;
        let mut interface = DriverFeatureInterface {
            size,
            version: FEATURE_INTERFACE_VERSION,
            ..DriverFeatureInterface::ZERO
        };
        let guid = FEATURE_INTERFACE_GUID;
        let mut args = QueryInterface {
            interface_type: ptr::from_ref(&guid).expose_provenance() as u64,
            size,
            version: FEATURE_INTERFACE_VERSION,
            interface: ptr::from_mut(&mut interface).expose_provenance() as u64,
            interface_specific_data: 0,
        };
        let status = entries.query_interface(adapter, &mut args)?;
        (status >= 0).then_some(DriverFeatures(interface))
    }

    pub(crate) fn support(&self, adapter: u64, args: &mut QueryFeatureSupport) -> Option<i32> {
        let at = code(self.0.query_feature_support)?;
        // SAFETY: the driver's interface has a function of this type here, or NULL.
        let function = unsafe { transmute::<*const c_void, Support>(at) };
        // SAFETY: the argument lives during the call.
        Some(unsafe { function(adapter, args) })
    }

    pub(crate) fn table(&self, adapter: u64, args: &mut QueryFeatureInterface) -> Option<i32> {
        let at = code(self.0.query_feature_interface)?;
        // SAFETY: as above.
        let function = unsafe { transmute::<*const c_void, Table>(at) };
        // SAFETY: as above.
        Some(unsafe { function(adapter, args) })
    }

    /// Drops the reference that the driver took for the query.
    pub(crate) fn release(&self) {
        if let Some(at) = code(self.0.interface_dereference) {
            // SAFETY: as above.
            let function = unsafe { transmute::<*const c_void, Reference>(at) };
            // SAFETY: the context is the driver's.
            unsafe { function(self.0.context) };
        }
    }
}

fn code(address: u64) -> Option<*const c_void> {
    (address != 0).then(|| with_exposed_provenance(address as usize))
}

fn of<'a>(handle: Handle) -> &'a HostContext {
    // SAFETY: the driver passes the context of its interface, which outlives the library.
    unsafe { &*handle }
}

unsafe extern "C-unwind" fn no_reference(_context: u64) {}

/// DxgkCbQueryServices.
pub(super) unsafe extern "C-unwind" fn query_services(
    handle: Handle,
    service: u32,
    interface: *mut KernelFeatureInterface,
) -> i32 {
    if !of(handle).host.check_level("DxgkCbQueryServices", 0) || interface.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: each interface begins with its size and version.
    let asked = unsafe { interface.cast::<[u16; 2]>().read_unaligned() };
    let size = size_of::<KernelFeatureInterface>() as u16;
    if service != SERVICES_FEATURE || asked[0] < size || asked[1] != FEATURE_INTERFACE_VERSION {
        return Status::NOT_SUPPORTED.0;
    }
    let address = |function: *const c_void| function.expose_provenance() as u64;
    let filled = KernelFeatureInterface {
        size,
        version: FEATURE_INTERFACE_VERSION,
        context: handle.expose_provenance() as u64,
        interface_reference: address(no_reference as *const c_void),
        interface_dereference: address(no_reference as *const c_void),
        is_feature_enabled: address(is_feature_enabled2 as *const c_void),
        query_feature_interface: address(query_feature_interface as *const c_void),
    };
    // SAFETY: the driver passes an interface of this size.
    unsafe { interface.write_unaligned(filled) };
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn is_feature_enabled2(
    handle: Handle,
    args: *mut IsFeatureEnabled2,
) -> i32 {
    let host = &of(handle).host;
    if !host.check_level("IsFeatureEnabled", 0) || args.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: the driver passes its argument.
    let mut filled = unsafe { args.read_unaligned() };
    let state = host.feature(FeatureId(filled.feature_id));
    let bits =
        [state.enabled, state.known, state.supported_by_driver, state.supported_on_current_config];
    let flags = bits.iter().rev().fold(0, |flags, bit| flags << 1 | u16::from(*bit));
    filled.result = IsFeatureEnabledResult { version: state.version, flags };
    // SAFETY: as above.
    unsafe { args.write_unaligned(filled) };
    Status::SUCCESS.0
}

/// DxgkCbIsFeatureEnabled.
pub(super) unsafe extern "C-unwind" fn is_feature_enabled(args: *mut IsFeatureEnabled) -> i32 {
    if args.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: the driver passes its argument.
    let mut filled = unsafe { args.read_unaligned() };
    let handle: Handle = with_exposed_provenance(filled.device_handle as usize);
    let host = &of(handle).host;
    if !host.check_level("DxgkCbIsFeatureEnabled", 0) {
        return Status::INVALID_PARAMETER.0;
    }
    filled.enabled = host.feature(FeatureId(filled.feature_id)).enabled.into();
    // SAFETY: as above.
    unsafe { args.write_unaligned(filled) };
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn query_feature_interface(
    handle: Handle,
    args: *mut QueryFeatureInterfaceCallback,
) -> i32 {
    let context = of(handle);
    if !context.host.check_level("QueryFeatureInterface", 0) || args.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: the driver passes its argument.
    let QueryFeatureInterfaceCallback { feature_id, version, interface_size, interface } =
        unsafe { args.read_unaligned() };
    let table: *mut u64 = ptr::with_exposed_provenance_mut(interface as usize);
    match context.host.feature_table(FeatureId(feature_id), version, interface_size) {
        Ok(KernelFeatureTable::NativeFence1(_)) if table.is_null() => Status::INVALID_PARAMETER.0,
        Ok(KernelFeatureTable::NativeFence1(_)) => {
            // SAFETY: the table has at least one pointer, or the kernel would have refused it.
            unsafe { table.write_unaligned(context.callbacks.get_os_caps) };
            Status::SUCCESS.0
        }
        Ok(_) => Status::SUCCESS.0,
        Err(status) => status.0,
    }
}
