//! One frame on three engines. A copy queue brings geometry and textures, the 3D queue draws a
//! pre-pass, the compute queue lights it, and the 3D queue draws with light and textures.
//!
//! Each queue waits for what it needs and no more, so the textures travel during the pre-pass.

use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{Arg, BufferDesc, CommandListType as Type, DeviceOptions, QueueDesc};
use tidegate::programs::draw::{COLOUR, PRE_PASS};
use tidegate::programs::{ProgramId, layout::ShadeConstants, mesh};
use tidegate::{Machine, MachineConfig, Platform};

const SIDE: u32 = 32;
const PIXELS: u64 = SIDE as u64 * SIDE as u64;
const COLOURS: [[u8; 4]; 4] = [[200, 0, 0, 255], [0, 160, 0, 255], [0, 0, 120, 255], [80; 4]];

/// Draws a ball into four tiles, each with its texture, in light that halves a colour's value.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::host();
    let machine = Machine::new(&platform, MachineConfig::standard(&platform))?;
    let device = machine.device(DeviceOptions::new("frame"))?;
    let copy = device.create_queue(QueueDesc::copy("copy"))?;
    let render = device.create_queue(QueueDesc::direct("render"))?;
    let compute = device.create_queue(QueueDesc::compute("compute"))?;
    let fence = |name| device.create_fence(name, 0);
    let (copied, rendered, lit) = (fence("copied")?, fence("rendered")?, fence("lit")?);

    let ball = mesh::sphere(0.9, 12).moved([0.0, 0.0, 1.0]).coloured([255; 3]).unindexed();
    let light = ShadeConstants { sky: [0.25; 3], ground: [0.25; 3], ..Default::default() };
    let buffer = |name, bytes| device.create_buffer(BufferDesc::new(name, bytes));
    let upload = |name, value, data: &[u8]| -> Result<_, tidegate::d3d12::Error> {
        let staging = device.create_buffer(BufferDesc::upload(name, data.len() as u64))?;
        staging.write(0, data)?;
        let uploaded = buffer(name, staging.bytes())?;
        let mut list = device.create_command_list(Type::Copy);
        list.copy(&uploaded, 0, &staging, 0, staging.bytes())?;
        copy.execute(&[&list.close()?])?;
        copy.signal(&copied, value)?;
        Ok(uploaded)
    };
    let (depth, rt1) = (buffer("depth", 4 * PIXELS)?, buffer("rt1", 16 * PIXELS)?);
    let (buf1, target) = (buffer("buf1", 16 * PIXELS)?, buffer("target", 16 * PIXELS)?);
    let picture = device.create_buffer(BufferDesc::readback("picture", 16 * PIXELS))?;

    // The copy engine: the geometry is complete at 101, the textures are at 102.
    let constants = upload("constants", 100, &light.to_bytes())?;
    let vertices = upload("vertices", 101, &mesh::vertex_bytes(&ball))?;
    let textures = upload("textures", 102, &COLOURS.map(|c| c.repeat(256)).concat())?;
    let (u32, no, at, count) = (Arg::U32, Arg::U64(0), Arg::Buffer, ball.len() as u32);
    let draw = |target, texture, light, mode| {
        let triangles = [at(&vertices, 0), u32(count), no, no, u32(count / 3), no];
        let output = [target, at(&depth, 0), u32(SIDE), u32(SIDE)];
        let surface = [texture, u32(16), u32(16), u32(1), light, u32(mode)];
        [&triangles[..], &output, &surface].concat()
    };
    // The 3D engine: the pre-pass needs the geometry alone.
    let mut list = device.create_command_list(Type::Direct);
    list.clear_float(&depth, 0, 4 * PIXELS, 1.0)?;
    list.draw_by_number(ProgramId::DRAW.0, [1; 3], &draw(at(&rt1, 0), no, no, PRE_PASS))?;
    render.wait(&copied, 101)?;
    render.execute(&[&list.close()?])?;
    render.signal(&rendered, 201)?;
    // The compute engine: light for each pixel of the pre-pass.
    let size = u32(SIDE);
    let arguments = [at(&rt1, 0), at(&buf1, 0), at(&constants, 0), no, no, size, size];
    let mut list = device.create_command_list(Type::Compute);
    list.dispatch_by_number(ProgramId::SHADE.0, [1; 3], &arguments)?;
    compute.wait(&rendered, 201)?;
    compute.execute(&[&list.close()?])?;
    compute.signal(&lit, 301)?;
    // The 3D engine again: the tiles need the light and the textures.
    let mut list = device.create_command_list(Type::Direct);
    for tile in 0..4 {
        let (target, texture) = (at(&target, tile * 4 * PIXELS), at(&textures, tile * 1024));
        let arguments = draw(target, texture, at(&buf1, 0), COLOUR);
        list.draw_by_number(ProgramId::DRAW.0, [1; 3], &arguments)?;
    }
    list.copy(&picture, 0, &target, 0, picture.bytes())?;
    render.wait(&lit, 301)?;
    render.wait(&copied, 102)?;
    render.execute(&[&list.close()?])?;
    render.signal(&rendered, 202)?;
    rendered.wait(202)?;

    for (tile, colour) in (0..).zip(COLOURS) {
        let mut pixel = [0; 4];
        picture.read(4 * (tile * PIXELS + PIXELS / 2 + 16), &mut pixel)?;
        assert_eq!(pixel[..3], colour.map(|channel| channel / 2)[..3]);
        println!("tile {tile} has half the value of its texture: {pixel:?}");
    }
    Ok(())
}
