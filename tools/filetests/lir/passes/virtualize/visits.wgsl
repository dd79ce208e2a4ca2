// routine outer, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i1_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = slab_0_[(at_0_ + u32(i0_))];
    let _e33 = bitcast<f32>(_e32);
    let _e41 = select(_e33, -105f, ((-105f > _e33) && ((_e32 & 2147483647u) <= 2139095040u)));
    let l1_ = select(_e41, 90f, ((90f < _e41) && ((bitcast<u32>(_e41) & 2147483647u) <= 2139095040u)));
    let l2_ = fma(l1_, 1.442695f, 12583166f);
    let _e52 = bitcast<u32>(l2_);
    let l3_ = (bitcast<f32>((_e52 ^ select(0u, 1u, (_e52 == 2143289345u)))) - 12583166f);
    let l4_ = bitcast<i32>(l2_);
    let _e63 = bitcast<u32>(fma(l3_, -0.69314575f, l1_));
    let l5_ = fma(l3_, -0.0000014286068f, bitcast<f32>((_e63 ^ select(0u, 1u, (_e63 == 2143289345u)))));
    let l6_ = (l4_ >> 1u);
    let l0_ = ((fma(fma(fma(fma(fma(fma(0.0013814627f, l5_, 0.008368717f), l5_, 0.04166839f), l5_, 0.16666521f), l5_, 0.49999994f), l5_, 1f), l5_, 1f) * bitcast<f32>((l6_ << 23u))) * bitcast<f32>(((l4_ - l6_) << 23u)));
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 4i) {
        } else {
            break;
        }
        let _e98 = slab_0_[(at_0_ + u32(i1_))];
        slab_0_[(at_1_ + u32(((i0_ * 4i) + i1_)))] = bitcast<u32>((l0_ * (bitcast<f32>(_e98) + 1f)));
        continuing {
            let _e108 = i1_next;
            i1_next = (_e108 + 1i);
        }
    }
}
