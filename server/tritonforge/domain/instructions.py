"""Classes of NVIDIA's machine instructions: `LineInstructions` and the counters of executed ones name them alike."""

from __future__ import annotations

# Mnemonics of each class, from "Instruction Set Reference" in NVIDIA's CUDA Binary Utilities (Ampere to Blackwell). A
# leading U (the uniform datapath) is looked up without it; what is not here counts as `other`: moves and constants.
# The fifth-generation tensor core's (tcgen05) count as `wgmma`: one class for what whole warpgroups issue.
TCGEN05 = frozenset({"UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "UTCMMA", "UTCMXQMMA"})
"""Matrix instructions of Blackwell's tensor cores."""
_MNEMONICS = {
    "fma": "FFMA FFMA2 HFMA2 DFMA",
    "alu": """FADD FADD2 FMUL FMUL2 FMNMX FMNMX3 FSEL FSETP FSET FCHK FSWZADD HADD2 HMUL2 HMNMX2 HSETP2 HSET2 DADD DMUL
        DSETP DMNMX""",
    "int": """IADD IADD3 IMAD IMUL LEA LOP LOP3 SHF SHL SHR ISETP IMNMX IMNMX3 VIMNMX VIMNMX3 VIADD VIADDMNMX VHMNMX
        IABS PRMT SEL BMSK SGXT POPC FLO BREV IDP IDP4A VABSDIFF PLOP3 P2R R2P XMAD ISCADD""",
    "special": "MUFU",
    "mma": "HMMA IMMA BMMA DMMA QMMA OMMA FMMA",
    "wgmma": "HGMMA IGMMA QGMMA BGMMA " + " ".join(sorted(TCGEN05)),
    "load_global": "LDG LD LDGMC",
    "store_global": "STG ST",
    "load_shared": "LDS LDSM LDTM",
    "store_shared": "STS STSM STTM STAS",
    "load_local": "LDL",
    "store_local": "STL",
    "async_copy": "LDGSTS UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKRED UBLKPF",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS",
    "barrier": """BAR MEMBAR SYNCS WARPGROUP WARPSYNC BSYNC BSSY BREAK FENCE UCGABAR_ARV UCGABAR_WAIT ERRBAR CGAERRBAR
        ARRIVES NANOSLEEP B2R ACQBULK UTCBAR CCTL LDGDEPBAR DEPBAR UTMACMDFLUSH UTMACCTL""",
    "shuffle": "SHFL VOTE VOTEU MATCH R2UR MOVM REDUX CREDUX",
    "convert": "F2F F2I I2F I2I F2FP I2FP F2IP FRND I2IP F2FX",
    "branch": "BRA BRX BRXU JMP JMX CALL RET EXIT KILL YIELD",
}
_CLASSES = {mnemonic: name for name, mnemonics in _MNEMONICS.items() for mnemonic in mnemonics.split()}


def classify(mnemonic: str) -> str:
    """Return the class of an instruction, as `LineInstructions` names them."""
    found = _CLASSES.get(mnemonic)
    if found is None and mnemonic.startswith("U"):
        found = _CLASSES.get(mnemonic[1:])  # UIADD3, ULOP3, … : the same on the uniform datapath
    return found or "other"
