//! Synchronisation objects in their older forms, and the names of shared objects.

use crate::Union64;
use crate::d3dukmdt::{MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_SIGNALED, MAX_OBJECTS_WAITED_ON};

public! {
    /// Describes a mutex or a semaphore, in the first form.
    SynchronizationObjectInfo = D3DDDI_SYNCHRONIZATIONOBJECTINFO {
        /// See `SynchronizationObjectType`. In.
        Type object_type: u32,
        /// One of the arms. In.
        Anonymous arm: [u32; 16],
    }

    /// Makes a mutex or a semaphore, in the first form.
    CreateSynchronizationObject = D3DKMT_CREATESYNCHRONIZATIONOBJECT {
        /// The owning device. In.
        hDevice device: u32,
        /// Its description. In.
        Info info: SynchronizationObjectInfo,
        /// Its handle in this process. Out.
        hSyncObject sync_object: u32,
    }

    /// Opens an object by its global handle.
    OpenSynchronizationObject = D3DKMT_OPENSYNCHRONIZATIONOBJECT {
        /// The global handle. In.
        hSharedHandle shared_handle: u32,
        /// Its handle in this process. Out.
        hSyncObject sync_object: u32,
        /// Zero.
        Reserved reserved: Union64,
    }

    /// Opens an object by its NT handle, in the first form.
    OpenSyncObjectFromNtHandle = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE {
        /// The shared handle. In.
        hNtHandle nt_handle: u64,
        /// Its handle in this process. Out.
        hSyncObject sync_object: u32,
    }

    /// Finds a shared object by its name.
    OpenSyncObjectNtHandleFromName = D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME {
        /// Rights. In.
        dwDesiredAccess access: u32,
        /// Address of [`ObjectAttributes`] with its name. In.
        pObjAttrib attributes: u64,
        /// Its NT handle. Out.
        hNtHandle nt_handle: u64,
    }

    /// Finds a shared resource by its name.
    OpenNtHandleFromName = D3DKMT_OPENNTHANDLEFROMNAME {
        /// Rights. In.
        dwDesiredAccess access: u32,
        /// Address of [`ObjectAttributes`] with its name. In.
        pObjAttrib attributes: u64,
        /// Its NT handle. Out.
        hNtHandle nt_handle: u64,
    }

    /// Makes a keyed mutex, in the first form.
    CreateKeyedMutex = D3DKMT_CREATEKEYEDMUTEX {
        /// The key of the first acquire. In.
        InitialValue initial_value: u64,
        /// Its global handle. Out.
        hSharedHandle shared_handle: u32,
        /// Its handle in this process. Out.
        hKeyedMutex keyed_mutex: u32,
    }

    /// Makes a keyed mutex.
    CreateKeyedMutex2 = D3DKMT_CREATEKEYEDMUTEX2 {
        /// The key of the first acquire. In.
        InitialValue initial_value: u64,
        /// Its global handle, if it has one. Out.
        hSharedHandle shared_handle: u32,
        /// Its handle in this process. Out.
        hKeyedMutex keyed_mutex: u32,
        /// Address of data of the runtime.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
        /// Bit 0: NtSecuritySharing. In.
        Flags flags: u32,
    }

    /// Opens a keyed mutex by its global handle, in the first form.
    OpenKeyedMutex = D3DKMT_OPENKEYEDMUTEX {
        /// The global handle. In.
        hSharedHandle shared_handle: u32,
        /// Its handle in this process. Out.
        hKeyedMutex keyed_mutex: u32,
    }

    /// Opens a keyed mutex by its global handle.
    OpenKeyedMutex2 = D3DKMT_OPENKEYEDMUTEX2 {
        /// The global handle. In.
        hSharedHandle shared_handle: u32,
        /// Its handle in this process. Out.
        hKeyedMutex keyed_mutex: u32,
        /// Address of data of the runtime.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
    }

    /// Opens a keyed mutex by NT handle.
    OpenKeyedMutexFromNtHandle = D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE {
        /// The shared handle. In.
        hNtHandle nt_handle: u64,
        /// Its handle in this process. Out.
        hKeyedMutex keyed_mutex: u32,
        /// Address of data of the runtime.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
    }

    /// Closes an instance of a keyed mutex.
    DestroyKeyedMutex = D3DKMT_DESTROYKEYEDMUTEX {
        /// The mutex. In.
        hKeyedMutex keyed_mutex: u32,
    }

    /// Acquires a keyed mutex, in the first form.
    AcquireKeyedMutex = D3DKMT_ACQUIREKEYEDMUTEX {
        /// The mutex. In.
        hKeyedMutex keyed_mutex: u32,
        /// The key. In.
        Key key: u64,
        /// Address of the timeout in 100 ns, below 0; 0 for none. In.
        pTimeout timeout: u64,
        /// What the last owner has passed. Out.
        FenceValue fence_value: u64,
    }

    /// Acquires a keyed mutex.
    AcquireKeyedMutex2 = D3DKMT_ACQUIREKEYEDMUTEX2 {
        /// The mutex. In.
        hKeyedMutex keyed_mutex: u32,
        /// The key. In.
        Key key: u64,
        /// Address of the timeout in 100 ns, below 0; 0 for none. In.
        pTimeout timeout: u64,
        /// What the last owner has passed. Out.
        FenceValue fence_value: u64,
        /// Address of data of the runtime.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
    }

    /// Releases a keyed mutex, in the first form.
    ReleaseKeyedMutex = D3DKMT_RELEASEKEYEDMUTEX {
        /// The mutex. In.
        hKeyedMutex keyed_mutex: u32,
        /// The key of the next acquire. In.
        Key key: u64,
        /// For the next owner. In.
        FenceValue fence_value: u64,
    }

    /// Releases a keyed mutex.
    ReleaseKeyedMutex2 = D3DKMT_RELEASEKEYEDMUTEX2 {
        /// The mutex. In.
        hKeyedMutex keyed_mutex: u32,
        /// The key of the next acquire. In.
        Key key: u64,
        /// For the next owner. In.
        FenceValue fence_value: u64,
        /// Address of data of the runtime.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
    }

    /// A context waits, in the first form.
    WaitForSynchronizationObject = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT {
        /// The context.
        hContext context: u32,
        /// Number of objects.
        ObjectCount object_count: u32,
        /// Their handles.
        ObjectHandleArray objects: [u32; MAX_OBJECTS_WAITED_ON],
    }

    /// A context waits.
    WaitForSynchronizationObject2 = D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
        /// The context.
        hContext context: u32,
        /// Number of objects.
        ObjectCount object_count: u32,
        /// Their handles.
        ObjectHandleArray objects: [u32; MAX_OBJECTS_WAITED_ON],
        /// Its first word is the value of fences.
        Anonymous arm: Union64,
    }

    /// A context signals, in the first form.
    SignalSynchronizationObject = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT {
        /// The context.
        hContext context: u32,
        /// Number of objects.
        ObjectCount object_count: u32,
        /// Their handles.
        ObjectHandleArray objects: [u32; MAX_OBJECTS_SIGNALED],
        /// See `SignalFlags`.
        Flags flags: u32,
    }

    /// One or several contexts signal.
    SignalSynchronizationObject2 = D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
        /// The first context.
        hContext context: u32,
        /// Number of objects.
        ObjectCount object_count: u32,
        /// Their handles.
        ObjectHandleArray objects: [u32; MAX_OBJECTS_SIGNALED],
        /// See `SignalFlags`.
        Flags flags: u32,
        /// Number of further contexts.
        BroadcastContextCount broadcast_context_count: u32,
        /// Their handles.
        BroadcastContext broadcast_contexts: [u32; MAX_BROADCAST_CONTEXTS],
        /// Its first word is the value of fences or, with EnqueueCpuEvent, the event.
        Anonymous arm: Union64,
    }
}

published! {
    /// Text of 4 bytes to the character, as C programs on Linux have it.
    UnicodeString = "UNICODE_STRING", 16 bytes {
        /// Bytes of the text.
        0 "Length" length: u16,
        /// Bytes of the buffer.
        2 "MaximumLength" maximum_length: u16,
        /// Address of the text.
        8 "Buffer" buffer: u64,
    }

    /// Name and security of an object.
    ObjectAttributes = "OBJECT_ATTRIBUTES", 48 bytes {
        /// Bytes of this structure.
        0 "Length" length: u32,
        /// Handle of a directory.
        8 "RootDirectory" root_directory: u64,
        /// Address of a [`UnicodeString`]; 0 for no name.
        16 "ObjectName" object_name: u64,
        /// Bits.
        24 "Attributes" attributes: u32,
        /// Address of a security descriptor. Not used.
        32 "SecurityDescriptor" security_descriptor: u64,
        /// Not used.
        40 "SecurityQualityOfService" security_quality_of_service: u64,
    }
}
