//! One frame on three engines. A copy queue brings geometry and textures, the 3D queue draws a
//! pre-pass, the compute queue lights it, and the 3D queue draws with light and textures. Each
//! queue waits for what it needs and no more, so the textures travel during the pre-pass.

use tidegate::d3d12::{BufferDesc, CommandListType as Type, DeviceOptions, QueueDesc};
use tidegate::programs::{Draw, Shade, draw::PRE_PASS, layout::ShadeConstants, mesh};
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
        copy.signal(&copied, value).map(|()| uploaded)
    };
    let (depth, rt1) = (buffer("depth", 4 * PIXELS)?, buffer("rt1", 16 * PIXELS)?);
    let (buf1, target) = (buffer("buf1", 16 * PIXELS)?, buffer("target", 16 * PIXELS)?);
    let picture = device.create_buffer(BufferDesc::readback("picture", 16 * PIXELS))?;
    // The copy engine: the geometry is complete at 101, the textures are at 102.
    let constants = upload("constants", 100, &light.to_bytes())?;
    let vertices = upload("vertices", 101, &mesh::vertex_bytes(&ball))?;
    let textures = upload("textures", 102, &COLOURS.map(|c| c.repeat(256)).concat())?;
    // The 3D engine: the pre-pass needs only the geometry.
    let draw = Draw::triangles(vertices.at(0), ball.len() as u32, depth.at(0), [SIDE; 2]);
    let mut list = device.create_command_list(Type::Direct);
    list.clear_float(&depth, 0, 4 * PIXELS, 1.0)?;
    let pre_pass = draw.target(rt1.at(0)).mode(PRE_PASS);
    list.draw(&pre_pass, pre_pass.groups())?;
    render.wait(&copied, 101)?;
    render.execute(&[&list.close()?])?;
    render.signal(&rendered, 201)?;
    // The compute engine: light for each pixel of the pre-pass.
    let (light, constants, width, height) = (&buf1, &constants, SIDE, SIDE);
    let shade = Shade { rt1: &rt1, light, constants, shadow: None, shadow_size: 0, width, height };
    let mut list = device.create_command_list(Type::Compute);
    list.dispatch(&shade, shade.groups())?;
    compute.wait(&rendered, 201)?;
    compute.execute(&[&list.close()?])?;
    compute.signal(&lit, 301)?;
    // The 3D engine again: the tiles need the light and the textures.
    let mut list = device.create_command_list(Type::Direct);
    for tile in 0..4 {
        let draw = draw.textured(textures.at(tile * 1024), [16, 16]).lit(buf1.at(0));
        let draw = draw.target(target.at(tile * 4 * PIXELS));
        list.draw(&draw, draw.groups())?;
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
