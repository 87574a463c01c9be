"""Models outside the evaluation's list, tiny and with random weights: HuggingFace architectures by class name, whatever timm and torchvision have.

    model, inputs = build_hf("LlamaForCausalLM")     a configuration made small by the names of its numbers; inputs by what `forward` takes
    model, call = build_generate("GPT2LMHeadModel")  call(m): greedy tokens, with a key-value cache, through `m` as the forward
    model, args = build_tv("fasterrcnn_resnet50_fpn")

A class that cannot be made small this way raises NotTiny: not a failure of ours.
"""
# ruff: noqa: E501, SIM905  tables of names and numbers

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import transformers as tf

Inputs = dict[str, Any]
HIDDEN, HEADS, VOCAB, LENGTH, IMAGE = 64, 4, 300, 16, 32

SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "attention_hidden_size", "word_embed_proj_dim",
                     "decoder_hidden_size", "projection_dim", "emb_dim", "text_embed_dim", "lru_width", "neck_hidden_sizes_"), HIDDEN),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers",
                     "num_encoder_layers", "num_hidden_layers_", "decoder_num_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
                     "attention_heads", "decoder_num_attention_heads"), HEADS),
    **dict.fromkeys(("num_key_value_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("intermediate_size", "n_inner", "hidden_dim", "d_inner", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size",
                     "moe_intermediate_size", "shared_expert_intermediate_size", "decoder_intermediate_size", "shared_intermediate_size"), 128),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length", "max_source_positions", "max_target_positions"), 128),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "attention_head_dim", "kv_channels"), HIDDEN // HEADS),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_top_k"), 2),
    **dict.fromkeys(("image_size",), IMAGE),
    **dict.fromkeys(("patch_size",), 8),
    "vocab_size": VOCAB, "rotary_dim": 8, "sliding_window": 8, "num_queries": 5, "window_size": 8, "state_size": 8, "expand": 2,
}  # fmt: skip

# What a configuration needs besides small numbers.
EXTRA: dict[str, Inputs] = {
    "BigBirdConfig": {"attention_type": "original_full"},
    "ReformerConfig": {"axial_pos_shape": [4, 4], "axial_pos_embds_dim": [32, 32], "attn_layers": ["local", "lsh"], "is_decoder": False, "num_buckets": 4, "feed_forward_size": 64},
    "FunnelConfig": {"block_sizes": [1, 1], "d_model": HIDDEN, "n_head": HEADS, "d_head": 16, "d_inner": 64},
    "BloomConfig": {"hidden_size": HIDDEN, "n_head": HEADS, "n_layer": 2},
    "RobertaConfig": {"pad_token_id": 1}, "MambaConfig": {"intermediate_size": 128, "time_step_rank": 4}, "RwkvConfig": {"attention_hidden_size": HIDDEN},
    "Mamba2Config": {"num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8}, "PerceiverConfig": {"d_latents": HIDDEN, "num_latents": 8, "qk_channels": 64, "v_channels": 64},
    "SwinConfig": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "patch_size": 4}, "Swinv2Config": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "patch_size": 4},
    "ConvNextConfig": {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}, "SegformerConfig": {"hidden_sizes": [16, 32, 32, 32], "num_attention_heads": [1, 2, 2, 2], "depths": [1, 1, 1, 1]},
    "ResNetConfig": {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "embedding_size": 16}, "MobileViTConfig": {"hidden_sizes": [16, 16, 32], "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32], "patch_size": 2, "image_size": 64},
    "Wav2Vec2Config": {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0},
    "HubertConfig": {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0},
    "WhisperConfig": {"max_source_positions": 16, "num_mel_bins": 8}, "DPTConfig": {"image_size": IMAGE, "neck_hidden_sizes": [16, 16, 16, 16], "fusion_hidden_size": 16, "backbone_out_indices": [0, 0, 1, 1]},
    "XLMConfig": {"emb_dim": HIDDEN, "n_heads": HEADS, "n_layers": 2}, "LongT5Config": {"d_kv": 16, "local_radius": 8}, "Pix2StructConfig": {}, "CanineConfig": {"downsampling_rate": 4, "upsampling_kernel_size": 4, "local_transformer_stride": 8, "num_hash_buckets": 64},
    "DeepseekV3Config": {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "num_key_value_heads": 4},
    "DeepseekV2Config": {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "num_key_value_heads": 4},
    "MobileBertConfig": {"embedding_size": 32, "true_hidden_size": 32, "intra_bottleneck_size": 32}, "GPTNeoConfig": {"attention_types": [[["global", "local"], 1]], "num_layers": 2}, "LongformerConfig": {"attention_window": [8, 8]},
    "ElectraConfig": {"embedding_size": 32}, "DebertaV2Config": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16}, "DebertaConfig": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "LayoutLMv3Config": {"input_size": 32, "coordinate_size": 10, "shape_size": 12, "max_2d_position_embeddings": 128}, "LayoutLMv2Config": {"coordinate_size": 10, "shape_size": 12}, "BitConfig": {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "embedding_size": 16, "num_groups": 4},
    "RegNetConfig": {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1], "embedding_size": 16, "groups_width": 8}, "PoolFormerConfig": {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}, "EfficientNetConfig": {"image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.2},
    "MobileNetV2Config": {"depth_multiplier": 0.25}, "LevitConfig": {"image_size": 64}, "CvtConfig": {"embed_dim": [16, 32, 32], "num_heads": [1, 2, 2], "depth": [1, 1, 1]}, "VitDetConfig": {"patch_size": 8, "window_size": 0},
    "GemmaConfig": {"head_dim": 16}, "PatchTSTConfig": {"num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 4, "prediction_length": 4}, "TimeSeriesTransformerConfig": {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2]},
}  # fmt: skip

HF = """
LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM GemmaForCausalLM Gemma2ForCausalLM
Gemma3ForCausalLM PhiForCausalLM Phi3ForCausalLM GPT2LMHeadModel GPTJForCausalLM GPTNeoXForCausalLM GPTBigCodeForCausalLM BloomForCausalLM OPTForCausalLM FalconForCausalLM
MambaForCausalLM Mamba2ForCausalLM RwkvForCausalLM CohereForCausalLM OlmoForCausalLM Olmo2ForCausalLM StableLmForCausalLM Starcoder2ForCausalLM PersimmonForCausalLM
MptForCausalLM CodeGenForCausalLM CTRLLMHeadModel OpenAIGPTLMHeadModel BioGptForCausalLM GraniteForCausalLM DeepseekV3ForCausalLM DbrxForCausalLM JambaForCausalLM
RecurrentGemmaForCausalLM NemotronForCausalLM GlmForCausalLM SmolLM3ForCausalLM Llama4ForCausalLM GptOssForCausalLM
BertForMaskedLM RobertaForMaskedLM ElectraForMaskedLM DebertaV2ForMaskedLM DebertaForMaskedLM AlbertForMaskedLM DistilBertForMaskedLM BigBirdForMaskedLM FunnelForMaskedLM
ReformerForMaskedLM XLMWithLMHeadModel XLMRobertaForMaskedLM XLNetLMHeadModel CanineForSequenceClassification LayoutLMForMaskedLM MPNetForMaskedLM FNetForMaskedLM RoFormerForMaskedLM
NystromformerForMaskedLM YosoForMaskedLM MegatronBertForMaskedLM SqueezeBertForMaskedLM ConvBertForMaskedLM IBertForMaskedLM ErnieForMaskedLM ModernBertForMaskedLM PerceiverForMaskedLM
EsmForMaskedLM RemBertForMaskedLM FlaubertWithLMHeadModel LukeForMaskedLM TapasForMaskedLM LongformerForMaskedLM MobileBertForMaskedLM
T5ForConditionalGeneration MT5ForConditionalGeneration LongT5ForConditionalGeneration UMT5ForConditionalGeneration SwitchTransformersForConditionalGeneration BartForConditionalGeneration PegasusForConditionalGeneration
M2M100ForConditionalGeneration MBartForConditionalGeneration LEDForConditionalGeneration BlenderbotForConditionalGeneration MarianMTModel FSMTForConditionalGeneration
ProphetNetForConditionalGeneration NllbMoeForConditionalGeneration PLBartForConditionalGeneration BigBirdPegasusForConditionalGeneration
ViTForImageClassification DeiTForImageClassification BeitForImageClassification SwinForImageClassification Swinv2ForImageClassification ConvNextForImageClassification ConvNextV2ForImageClassification
SegformerForSemanticSegmentation ResNetForImageClassification MobileViTForImageClassification DPTForDepthEstimation Dinov2ForImageClassification RegNetForImageClassification BitForImageClassification
PoolFormerForImageClassification MobileNetV2ForImageClassification EfficientNetForImageClassification LevitForImageClassification CvtForImageClassification ViTMAEForPreTraining YolosForObjectDetection
CLIPModel CLIPVisionModel CLIPTextModel SiglipModel BlipModel ViltModel LayoutLMv3Model GitModel AltCLIPModel GroupViTModel
Wav2Vec2ForCTC HubertForCTC WavLMForCTC SEWForCTC UniSpeechForCTC Data2VecAudioForCTC WhisperForConditionalGeneration Speech2TextForConditionalGeneration ASTForAudioClassification
""".split()  # fmt: skip
GENERATE = """GPT2LMHeadModel LlamaForCausalLM MistralForCausalLM GPTNeoXForCausalLM BloomForCausalLM OPTForCausalLM FalconForCausalLM GemmaForCausalLM PhiForCausalLM Qwen2ForCausalLM
MambaForCausalLM T5ForConditionalGeneration BartForConditionalGeneration""".split()  # fmt: skip
TIMM = """vit_tiny_patch16_224 deit3_small_patch16_224 eva02_tiny_patch14_224 swinv2_cr_tiny_224 swinv2_tiny_window8_256 convnextv2_atto convnext_atto edgenext_xx_small
efficientformer_l1 efficientformerv2_s0 efficientvit_b0 efficientvit_m0 fastvit_t8 fasternet_t0 focalnet_tiny_srf gcvit_xxtiny hgnet_tiny hiera_tiny_224 hieradet_small inception_next_atto inception_resnet_v2
inception_v4 maxvit_rmlp_pico_rw_256 coatnet_pico_rw_224 coatnext_nano_rw_224 mobilenetv4_conv_small mobilenetv5_base mobileone_s0 mobilevitv2_050 mvitv2_tiny nextvit_small pvt_v2_b0 rdnet_tiny regnetx_002 regnetz_b16 repghostnet_050
repvit_m0_9 resnetv2_50 seresnet50 skresnet18 senet154 sequencer2d_s shvit_s1 starnet_s1 tiny_vit_5m_224 tresnet_m twins_svt_small vgg11 visformer_tiny vit_relpos_small_patch16_224 vitamin_small_224
vovnet39a xception41 xcit_nano_12_p16_224 cspresnet50 darknet53 davit_tiny dpn68 ghostnetv2_100 hardcorenas_b hrnet_w18_small levit_conv_128 mambaout_femto mixnet_s
naflexvit_base_patch16_gap nf_resnet50 pit_xs_224 poolformer_s12 resnest14d resnet50 resnetblur50 samvit_base_patch16 selecsls42 swin_tiny_patch4_window7_224 tinynet_e halonet26t lambda_resnet26t bat_resnext26ts haloregnetz_b
beitv2_base_patch16_224 cait_xxs24_224 caformer_s18 convformer_s18 convit_tiny crossvit_tiny_240 flexivit_small efficientnet_b0 efficientnetv2_s semnasnet_075 tf_efficientnetv2_b0 res2net50_26w_4s wide_resnet50_2""".split()  # fmt: skip
TV = """alexnet densenet121 efficientnet_v2_s convnext_tiny swin_t swin_v2_t vit_b_16 maxvit_t regnet_y_400mf shufflenet_v2_x0_5 mobilenet_v3_small mnasnet0_5 squeezenet1_1 resnext50_32x4d vgg11_bn
inception_v3 googlenet fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large fasterrcnn_resnet50_fpn fasterrcnn_mobilenet_v3_large_fpn maskrcnn_resnet50_fpn retinanet_resnet50_fpn
keypointrcnn_resnet50_fpn ssdlite320_mobilenet_v3_large fcos_resnet50_fpn r3d_18 mc3_18 r2plus1d_18 s3d mvit_v2_s swin3d_t raft_small""".split()  # fmt: skip


class NotTiny(Exception):
    """The class is not there, or does not run in eager with what we give it."""


def shrink(config: Any, extra: Inputs) -> None:
    """Small numbers for every field whose name says what it counts, in the parts of a composed configuration too."""
    aliases = getattr(type(config), "attribute_map", {})
    for name, value in {**SMALL, **extra, **EXTRA.get(type(config).__name__, {})}.items():
        now = getattr(config, name, None)
        given = name in extra or name in EXTRA.get(type(config).__name__, {})
        if given or (aliases.get(name, name) == name and isinstance(now, int) and not isinstance(now, bool) and now > value):
            setattr(config, name, value)
    for part in (p for p in vars(config).values() if isinstance(p, tf.PretrainedConfig)):
        shrink(part, {})
    _settle(config)


def _settle(config: Any) -> None:
    """What depends on other numbers: token ids below the vocabulary, as many layer types as layers, no dropout."""
    for name, value in list(vars(config).items()):
        if name.endswith("token_id") and isinstance(value, int) and value >= VOCAB:
            setattr(config, name, VOCAB - 1)
        if ("drop" in name or name == "mask_time_prob") and isinstance(value, float):
            setattr(config, name, 0.0)
        if name == "layer_types" and value:
            config.layer_types = value[: config.num_hidden_layers]
    if getattr(config, "rope_scaling", None) and isinstance(config.rope_scaling, dict) and config.rope_scaling.get("rope_type") not in (None, "default"):
        config.rope_scaling = None


def hf_config(cls: Any) -> Any:
    kind = cls.config_class
    extra = EXTRA.get(kind.__name__, {})
    try:
        config = kind(**extra)
    except TypeError:
        config = kind()
    shrink(config, {})
    try:
        fresh = kind(**{k: v for k, v in config.to_dict().items() if k not in ("model_type", "transformers_version", "layer_types", "architectures")})
        shrink(fresh, {})
        return fresh
    except Exception:
        return config


def hf_inputs(model: Any, config: Any, training: bool) -> Inputs:
    """By the names of the parameters of `forward`."""
    takes = inspect.signature(model.forward).parameters
    g = torch.Generator().manual_seed(1337)
    text = getattr(config, "text_config", config)
    vocab = getattr(text, "vocab_size", VOCAB)
    size = getattr(getattr(config, "vision_config", config), "image_size", IMAGE)
    size = size if isinstance(size, int) else IMAGE
    made: Inputs = {}
    if "input_ids" in takes:
        made["input_ids"] = torch.randint(5, max(6, min(vocab, VOCAB) - 5), (2, LENGTH), generator=g)
    if "decoder_input_ids" in takes:
        made["decoder_input_ids"] = torch.randint(5, VOCAB - 5, (2, LENGTH), generator=g)
    if "pixel_values" in takes:
        made["pixel_values"] = torch.randn(2, getattr(config, "num_channels", 3), size, size, generator=g)
    if "input_features" in takes:
        bins = getattr(config, "num_mel_bins", 80)
        made["input_features"] = torch.randn(2, bins, 32, generator=g) if "Whisper" in type(model).__name__ else torch.randn(2, 64, getattr(config, "input_feat_per_channel", bins), generator=g)
    if "input_values" in takes:
        wide = "AST" in type(model).__name__
        made["input_values"] = torch.randn(2, config.max_length, config.num_mel_bins, generator=g) if wide else torch.randn(2, 1600, generator=g)
    if "bbox" in takes:
        made["bbox"] = torch.tensor([1, 2, 30, 40]).expand(2, LENGTH, 4).contiguous()
    if training and "labels" in takes and ("CausalLM" in type(model).__name__ or "LMHead" in type(model).__name__ or "MaskedLM" in type(model).__name__):
        made["labels"] = made["input_ids"].clone()
    return made


def build_hf(name: str, training: bool = False) -> tuple[Any, Inputs]:
    cls = getattr(tf, name, None)
    if cls is None:
        raise NotTiny(f"transformers has no {name}")
    try:
        torch.manual_seed(1337)
        config = hf_config(cls)
        if getattr(config, "use_cache", None):
            config.use_cache = False
        model = cls(config).train(training)
        inputs = hf_inputs(model, config, training)
        with torch.set_grad_enabled(training):
            model(**inputs)
    except Exception as error:
        raise NotTiny(f"{type(error).__name__}: {error}"[:200]) from error
    torch.manual_seed(1337)
    return cls(config).train(training), inputs


def build_generate(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """A model's forward, and a call that makes 8 tokens greedily with `forward` in its place (lengths grow, the cache is used)."""
    torch.manual_seed(1337)
    cls = getattr(tf, name)
    model = cls(hf_config(cls)).eval()
    ids = torch.randint(5, VOCAB - 5, (2, 5), generator=torch.Generator().manual_seed(1337))

    def call(forward: Any) -> Any:
        model.forward = forward
        try:
            return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, min_new_tokens=8, do_sample=False)
        finally:
            del model.forward

    return model.forward, call


def build_timm(name: str, training: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """The smallest of some resolutions that runs in eager."""
    import timm

    if not timm.is_model(name):
        raise NotTiny(f"timm has no {name}")
    for size, how in ((s, h) for s in (64, 96, 128, 224, 256) for h in ({}, {"img_size": s})):
        try:
            torch.manual_seed(1337)
            model = timm.create_model(name, pretrained=False, num_classes=10, **how).train(training)
            x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1337))
            with torch.set_grad_enabled(training):
                model(x)
        except Exception:
            continue
        torch.manual_seed(1337)
        return timm.create_model(name, pretrained=False, num_classes=10, **how).train(training), (x,)
    raise NotTiny(f"{name} runs at no small size")


def build_tv(name: str, training: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """A torchvision model with what it takes: images, lists of images with targets, clips, pairs of images."""
    import torchvision.models as models
    from torchvision.models import get_model_builder

    g = torch.Generator().manual_seed(1337)
    torch.manual_seed(1337)
    options = {"weights": None}
    module = get_model_builder(name).__module__.removeprefix(models.__name__ + ".")
    if module.startswith(("detection", "segmentation")):
        options |= {"weights_backbone": None, "num_classes": 5}
    model = get_model_builder(name)(**options).train(training)
    return model, _tv_inputs(name, module, training, g)


def _tv_inputs(name: str, module: str, training: bool, g: torch.Generator) -> tuple[Any, ...]:
    if module.startswith("detection"):
        images = [torch.rand(3, 64, 80, generator=g), torch.rand(3, 72, 64, generator=g)]
        target = {"boxes": torch.tensor([[4.0, 5.0, 30.0, 40.0], [10.0, 2.0, 50.0, 60.0]]), "labels": torch.tensor([1, 2]), "masks": torch.ones(2, 64, 80, dtype=torch.uint8), "keypoints": torch.ones(2, 17, 3)}
        return (images, [dict(target), dict(target)]) if training else (images,)
    if module.startswith("optical_flow"):
        return torch.rand(1, 3, 128, 128, generator=g), torch.rand(1, 3, 128, 128, generator=g)
    if module.startswith("video"):
        return (torch.rand(1, 3, 16, 224, 224, generator=g) if name.startswith(("mvit", "s3d")) else torch.rand(1, 3, 8, 56, 56, generator=g),)
    side = 224 if name in ("vit_b_16", "maxvit_t") else 96 if name in ("inception_v3", "googlenet") else 64
    return (torch.rand(2, 3, side, side, generator=g),)
