//! Vocabulary of page fault reports of drivers and removed devices.

use crate::Status;
use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    // spec: HS-015
    /// Kind of a page fault, and validity of the handles in its report.
    #[doc(alias = "DXGK_PAGE_FAULT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct PageFaultFlags: u32 {
        /// A store.
        const WRITE = 1;
        /// The fence id, and with it the queue, is unknown.
        const FENCE_INVALID = 1 << 1;
        /// The adapter must be reset.
        const ADAPTER_RESET_REQUIRED = 1 << 2;
        /// The engine must be reset.
        const ENGINE_RESET_REQUIRED = 1 << 3;
        /// The hardware is broken.
        const FATAL_HARDWARE_ERROR = 1 << 4;
        /// The system's address translation faulted, not the GPU's.
        const IOMMU = 1 << 5;
        /// The context is known.
        const HW_CONTEXT_VALID = 1 << 6;
        /// The process is known.
        const PROCESS_HANDLE_VALID = 1 << 7;
    }
}

/// Stage of the draw pipeline of an access.
#[doc(alias = "DXGK_RENDER_PIPELINE_STAGE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    /// Returns the stage with this number; INVALID_PARAMETER for an unknown one.
    fn try_from(number: u32) -> Result<RenderPipelineStage, Status> {
        RenderPipelineStage::ALL.get(number as usize).copied().ok_or(Status::INVALID_PARAMETER)
    }
}

/// General fault codes.
#[doc(alias = "DXGK_GENERAL_ERROR_CODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum GeneralErrorCode {
    /// An address that is not mapped for the access.
    PageFault = 0,
    /// An invalid or privileged instruction.
    InvalidInstruction = 1,
}

/// The code of a fault: a general or a device-specific one.
#[doc(alias = "DXGK_FAULT_ERROR_CODE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FaultErrorCode(pub u32);

impl FaultErrorCode {
    /// IsDeviceSpecificCode; the other 31 bits are the code.
    const DEVICE_SPECIFIC: u32 = 1;

    /// A general code.
    pub fn general(code: GeneralErrorCode) -> FaultErrorCode {
        FaultErrorCode((code as u32) << 1)
    }

    /// A device-specific code of 31 bits.
    pub fn device_specific(code: u32) -> FaultErrorCode {
        FaultErrorCode(code << 1 | FaultErrorCode::DEVICE_SPECIFIC)
    }

    /// Whether it is device-specific.
    pub fn is_device_specific(self) -> bool {
        self.0 & FaultErrorCode::DEVICE_SPECIFIC != 0
    }

    /// The code of 31 bits.
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
