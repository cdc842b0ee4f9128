//! Words that describe a page fault, in reports of drivers and of removed devices.

use crate::Status;

bitflags::bitflags! {
    // spec: HS-015
    /// What a page fault was; it also says which handle of the faulted one is valid.
    #[doc(alias = "DXGK_PAGE_FAULT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PageFaultFlags: u32 {
        /// A store.
        const WRITE = 1;
        /// The fence id, and with it the queue, is unknown.
        const FENCE_INVALID = 1 << 1;
        /// Only a reset of the adapter helps.
        const ADAPTER_RESET_REQUIRED = 1 << 2;
        /// Only a reset of the engine helps.
        const ENGINE_RESET_REQUIRED = 1 << 3;
        /// The hardware is broken.
        const FATAL_HARDWARE_ERROR = 1 << 4;
        /// The system's address translation refused it, not the GPU's.
        const IOMMU = 1 << 5;
        /// The context is known.
        const HW_CONTEXT_VALID = 1 << 6;
        /// The process is known.
        const PROCESS_HANDLE_VALID = 1 << 7;
    }
}

/// Where in the pipeline of draws an access was made.
#[doc(alias = "DXGK_RENDER_PIPELINE_STAGE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum RenderPipelineStage {
    /// Not in a draw, or unknown.
    #[default]
    Unknown = 0,
    /// Vertices and indices are read.
    InputAssembler = 1,
    /// A program runs for each vertex.
    VertexShader = 2,
    /// A program runs for each primitive.
    GeometryShader = 3,
    /// Vertices are written back.
    StreamOutput = 4,
    /// Primitives become pixels.
    Rasterizer = 5,
    /// A program runs for each pixel.
    PixelShader = 6,
    /// Pixels are written.
    OutputMerger = 7,
}

impl RenderPipelineStage {
    /// All of them, by number.
    pub const ALL: [RenderPipelineStage; 8] = [
        RenderPipelineStage::Unknown,
        RenderPipelineStage::InputAssembler,
        RenderPipelineStage::VertexShader,
        RenderPipelineStage::GeometryShader,
        RenderPipelineStage::StreamOutput,
        RenderPipelineStage::Rasterizer,
        RenderPipelineStage::PixelShader,
        RenderPipelineStage::OutputMerger,
    ];
}

impl TryFrom<u32> for RenderPipelineStage {
    type Error = Status;

    /// The stage of that number; INVALID_PARAMETER for any other.
    fn try_from(number: u32) -> Result<RenderPipelineStage, Status> {
        RenderPipelineStage::ALL.get(number as usize).copied().ok_or(Status::INVALID_PARAMETER)
    }
}

/// What a fault's code can say about any hardware.
#[doc(alias = "DXGK_GENERAL_ERROR_CODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum GeneralErrorCode {
    /// An address that is not mapped for the access.
    PageFault = 0,
    /// An instruction that makes no sense, or that must not be given.
    InvalidInstruction = 1,
}

/// The code of a fault: a general one, or one that the hardware's driver alone can read.
#[doc(alias = "DXGK_FAULT_ERROR_CODE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultErrorCode(pub u32);

impl FaultErrorCode {
    /// Set when the code is the hardware's own (IsDeviceSpecificCode); the other 31 bits are the
    /// code.
    const DEVICE_SPECIFIC: u32 = 1;

    /// One of the general codes.
    pub fn general(code: GeneralErrorCode) -> FaultErrorCode {
        FaultErrorCode((code as u32) << 1)
    }

    /// A code of the hardware's own; its uppermost bit is lost.
    pub fn device_specific(code: u32) -> FaultErrorCode {
        FaultErrorCode(code << 1 | FaultErrorCode::DEVICE_SPECIFIC)
    }

    /// Whether it is the hardware's own.
    pub fn is_device_specific(self) -> bool {
        self.0 & FaultErrorCode::DEVICE_SPECIFIC != 0
    }

    /// The code, of 31 bits, without what says whose it is.
    pub fn code(self) -> u32 {
        self.0 >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HS-015
    #[test]
    fn numbers_are_those_of_the_header() {
        for (number, stage) in (0..).zip(RenderPipelineStage::ALL) {
            assert_eq!((RenderPipelineStage::try_from(number), stage as u32), (Ok(stage), number));
        }
        assert_eq!(RenderPipelineStage::try_from(8), Err(Status::INVALID_PARAMETER));
        assert_eq!(PageFaultFlags::all().bits(), 0xFF);
        assert_eq!(PageFaultFlags::PROCESS_HANDLE_VALID.bits(), 0x80);
        assert_eq!(FaultErrorCode::default(), FaultErrorCode::general(GeneralErrorCode::PageFault));
        assert_eq!(
            FaultErrorCode::general(GeneralErrorCode::InvalidInstruction),
            FaultErrorCode(2)
        );
        let own = FaultErrorCode::device_specific(6);
        assert_eq!((own, own.code(), own.is_device_specific()), (FaultErrorCode(13), 6, true));
    }
}
