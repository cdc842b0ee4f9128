//! The driver's part in signals between GPUs: it connects common doorbells and sets the hardware's
//! list of GPUs that watch each fence.
//!
//! Order of a link:
//!
//! 1. The hardware watches the fence itself, so that a linked GPU may signal it immediately.
//! 2. Each new watching GPU is added.
//! 3. GPUs that have stopped watching are removed. With none left, the hardware stops watching.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::{LinkNativeFence, PeerDoorbell};
use tidegate_gpu_abi::AdminCommand;
use tidegate_gpu_abi::peer::CommonDoorbell;
use tidegate_platform::PhysicalAddress;

/// The physical address that stands for none.
const NOWHERE: PhysicalAddress = PhysicalAddress(0);

impl ReferenceDriver {
    pub(crate) fn give_doorbell(&self) -> Result<PeerDoorbell, KmdError> {
        let doorbell = self.device.common_doorbell();
        doorbell
            .map(PeerDoorbell::new)
            .ok_or(KmdError::NotSupported("a common doorbell on a device without one"))
    }

    pub(crate) fn take_doorbell(&self, peer: u32, doorbell: &PeerDoorbell) -> Result<(), KmdError> {
        let doorbell: &CommonDoorbell = doorbell
            .of_kind()
            .ok_or(KmdError::NotSupported("a common doorbell of another kind"))?;
        self.device.connect_common_doorbell(peer, doorbell.clone());
        Ok(())
    }

    pub(crate) fn link(&self, args: &LinkNativeFence) -> Result<(), KmdError> {
        let wanted: Vec<u32> = args.peers.iter().map(|p| p.peer).collect();
        let before = {
            let mut objects = self.objects.lock();
            let fence = objects.fences.get_mut(args.fence)?;
            std::mem::replace(&mut fence.peers, wanted.clone())
        };
        let (current_value, history) = (args.current_value, args.history);
        let watch =
            |monitored_value| AdminCommand::WatchFence { current_value, monitored_value, history };
        // 1.
        if !wanted.is_empty() && before.is_empty() {
            self.mailbox.run(watch(args.monitored_value))?;
        }
        // 2.
        for other in &args.peers {
            let (peer, monitored_value) = (other.peer, other.monitored_value.unwrap_or(NOWHERE));
            let linked = true;
            self.mailbox.run(AdminCommand::LinkPeer {
                current_value,
                peer,
                monitored_value,
                linked,
            })?;
        }
        // 3.
        for peer in before.iter().copied().filter(|peer| !wanted.contains(peer)) {
            let (monitored_value, linked) = (NOWHERE, false);
            self.mailbox.run(AdminCommand::LinkPeer {
                current_value,
                peer,
                monitored_value,
                linked,
            })?;
        }
        if wanted.is_empty() && !before.is_empty() {
            self.mailbox.run(watch(NOWHERE))?;
        }
        Ok(())
    }
}
