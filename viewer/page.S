/* The page, as bytes between two symbols; empty when the build found no Plotly. */
    .section .rodata
    .global ttap_page_begin
    .hidden ttap_page_begin
    .global ttap_page_end
    .hidden ttap_page_end
ttap_page_begin:
    .incbin TTAP_PAGE
ttap_page_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
